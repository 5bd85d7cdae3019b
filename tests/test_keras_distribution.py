"""Keras's own work for several devices, or ahead of a step, is not done a second time for a placed model.

Keras 3.16 wraps PyTorch models in DistributedDataParallel and sums their metrics over all ranks wherever torch.distributed is
initialized. On JAX it puts one batch ahead on the device. With an older Keras, the tests of DistributedDataParallel hold too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.harness.client import ROOT, RemoteError, Workers
from tests.harness.differences import largest_difference
from tests.harness.installed import keras_is_older_than, skip_unless_installed

SIZE = 2


def data() -> tuple[Any, Any]:
    draws = np.random.default_rng(0)
    return draws.normal(size=(50, 4)).astype("float32"), draws.normal(size=(50, 1)).astype("float32")


def model() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return model


def trained(model: Any) -> Any:
    x, y = data()
    history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(x, y)).history
    return {"history": history, "evaluated": model.evaluate(x, y, verbose=0), "weights": model.get_weights()}


def placed_then_plain() -> Any:
    """A placed model, and then plain Keras in the process that is rank 0 of PyTorch's workers."""
    import abreast

    several, plain = abreast.parallelize(model(), 2), model()
    several_trained = trained(several)
    wrapped = [getattr(each, "ddp_model", None) is not None for each in (several, plain)]
    return {"placed": several_trained, "plain": trained(plain), "wrapped": wrapped}


def plain() -> Any:
    return trained(model())


@pytest.mark.in_turn
def test_a_placed_model_and_plain_ones_beside_it_train_as_on_one_device(workers: Workers) -> None:
    expected, found = workers.plain.run(plain), workers.abreast.run(placed_then_plain)
    assert largest_difference(expected, found["placed"]) < 1e-5  # measured 1e-7
    assert largest_difference(expected, found["plain"]) < 1e-6  # measured 0
    assert found["wrapped"] == [False, False]


def start_methods() -> Any:
    """How Keras starts the processes of a `PyDataset` beside a team, and how Python does; None where Keras does not choose."""
    import multiprocessing

    from keras.src.trainers.data_adapters import py_dataset_adapter

    import abreast

    trained(abreast.parallelize(model(), 2))
    choose = getattr(py_dataset_adapter, "_get_mp_context", None)
    return None if choose is None else (choose().get_start_method(), multiprocessing.get_start_method())


def test_processes_of_a_py_dataset_start_beside_a_team_as_without_one(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("of PyTorch")
    found = workers.abreast.run(start_methods)
    if found is None:
        pytest.skip("Keras before 3.16 leaves it to Python")
    assert found[0] == found[1]


def distributed(name: str, in_a_script: bool) -> Any:
    """A training on 2 devices with a `keras.distribution` set; what stderr says, and what a script sees set."""
    from contextlib import ExitStack, redirect_stderr
    from io import StringIO

    import keras

    import abreast
    from abreast import keras_distribution
    from abreast.stderr import tell_once

    tell_once.cache_clear()
    set_there: Any = None
    with ExitStack() as stack:
        told = stack.enter_context(redirect_stderr(StringIO()))
        if in_a_script:
            stack.enter_context(keras_distribution.taken_over())
        stack.callback(keras.distribution.set_distribution, None)
        distribution = _distribution(name)
        keras.distribution.set_distribution(distribution)
        set_there = keras.distribution.distribution() is distribution
        found = trained(abreast.parallelize(model(), 2))
        with distribution.scope():  # a second line would say so
            pass
    return found | {"told": [line for line in told.getvalue().splitlines() if "distribution" in line], "set": set_there}


def _distribution(name: str) -> Any:
    from types import SimpleNamespace

    import keras
    import numpy as np

    # Keras lists no devices on PyTorch, and its mesh is only looked at where Keras follows it.
    devices = [f"cpu:{index}" for index in range(4)]
    if name == "DataParallel":
        return keras.distribution.DataParallel(devices=devices)
    mesh: Any = keras.distribution.DeviceMesh((2, 2), ["batch", "model"], devices)
    if keras.backend.backend() == "torch":
        mesh = SimpleNamespace(shape=(2, 2), axis_names=["batch", "model"], devices=np.reshape(devices, (2, 2)))
    layout = keras.distribution.LayoutMap(mesh)
    layout["dense.*kernel"] = (None, "model")
    return keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")


TAKEN_OVER = (
    "abreast: takes over keras.distribution.DataParallel: it places nothing, and a batch is that of all devices"
)


@pytest.mark.in_turn  # the next test is always run on JAX, where Keras has this
def test_a_script_may_set_keras_data_parallelism_which_is_taken_over(workers: Workers) -> None:
    found = workers.abreast.run(distributed, name="DataParallel", in_a_script=True)
    assert found.pop("told") == [TAKEN_OVER]
    assert found.pop("set")
    assert largest_difference(workers.plain.run(plain), found) < 1e-5  # measured 1e-7


@pytest.mark.in_turn(1)
def test_keras_data_parallelism_around_a_placed_model_is_taken_over_on_jax_and_else_refused(workers: Workers) -> None:
    if keras_is_older_than("3.14"):
        pytest.skip("Keras 3.13 makes these distributions on JAX only, and not of one process")
    if workers.backend == "jax":
        found = workers.abreast.run(distributed, name="DataParallel", in_a_script=False)
        assert found.pop("told") == [TAKEN_OVER]
        assert found.pop("set")
        assert largest_difference(workers.plain.run(plain), found) < 1e-5
        return
    with pytest.raises(
        RemoteError, match=r"a keras\.distribution\.DataParallel is set, and abreast distributes models, too"
    ):
        workers.abreast.run(distributed, name="DataParallel", in_a_script=False)


@pytest.mark.parametrize("in_a_script", [True, False])
def test_model_parallelism_of_keras_is_refused(workers: Workers, in_a_script: bool) -> None:
    if keras_is_older_than("3.14"):
        pytest.skip("Keras 3.13 makes these distributions on JAX only, and not of one process")
    if workers.backend != "jax" and not in_a_script:
        pytest.skip("refused with all other distributions")
    with pytest.raises(RemoteError, match=r"sets a keras\.distribution\.ModelParallel, which abreast cannot take over"):
        workers.abreast.run(distributed, name="ModelParallel", in_a_script=in_a_script)


def several_hosts() -> None:
    import keras

    from abreast import keras_distribution

    with keras_distribution.taken_over():
        keras.distribution.initialize("10.0.0.1:1234,10.0.0.2:1234", num_processes=2, process_id=0)


def test_keras_distribution_over_several_hosts_is_refused(workers: Workers) -> None:
    with pytest.raises(RemoteError, match=r"keras\.distribution\.initialize\(num_processes=2, \.\.\.\): several hosts"):
        workers.abreast.run(several_hosts)


# The user initializes torch.distributed, as for Keras's own data parallelism, and abreast places the model.
_SCRIPT = """
import json, sys
import torch.distributed as dist
rank, size, port, order = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if size > 1:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
import abreast
from tests.test_keras_distribution import model, data, trained
several = model()
if order == "plain first":
    x, y = data()
    several.evaluate(x, y, verbose=0)
abreast.parallelize(several)
found = trained(several)
print(json.dumps({**found, "weights": [weight.tolist() for weight in found["weights"]]}))
if size > 1:
    dist.destroy_process_group()
"""


@pytest.mark.in_turn
@pytest.mark.torch
@pytest.mark.parametrize("order", ["placed first", "plain first"])
def test_under_a_process_group_of_the_users_a_placed_model_is_not_wrapped(order: str) -> None:
    skip_unless_installed("torch")
    from tests.launched.job import free_port, result  # imports abreast, which plain workers must not

    port = free_port()
    started = [start(rank, SIZE, port, order) for rank in range(SIZE)] + [start(0, 1, port, order)]
    *ranks, alone = [result(process) for process in started]
    for rank in ranks:
        assert largest_difference(alone["weights"], rank["weights"]) < 1e-5
        assert largest_difference(alone["history"], rank["history"]) < 1e-5
        assert largest_difference([alone["evaluated"]], [rank["evaluated"]]) < 1e-5


def start(rank: int, size: int, port: int, order: str) -> subprocess.Popen[str]:
    world = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common = {"KERAS_BACKEND": "torch", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(rank), str(size), str(port), order],
        env={**os.environ, **common, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **(world if size > 1 else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# Since 3.15, and before.
_AHEAD = ("_one_batch_ahead_iterator", "_prefetch_numpy_iterator")


def batches_ahead() -> Any:
    """How many iterators Keras reads ahead of, of a plain and of a placed `fit`, where it believes to be on a GPU."""
    import abreast
    from abreast.keras_private import jax as keras_jax

    iterators: list[Any] = []
    trainer = sys.modules[keras_jax.JAXEpochIterator.__module__]
    epoch_iterator: Any = keras_jax.JAXEpochIterator
    name = next(each for each in _AHEAD if hasattr(epoch_iterator, each))
    ahead, jax = getattr(epoch_iterator, name), trainer.jax

    class OnGpu:
        def __getattr__(self, name: str) -> Any:
            return getattr(jax, name)

        def default_backend(self) -> str:
            return "gpu"

    def noted(self: Any, iterator: Any) -> Any:
        iterators.append(iterator)
        return ahead(self, iterator)

    setattr(epoch_iterator, name, noted)
    trainer.jax = OnGpu()  # type: ignore[attr-defined]
    try:
        counts = []
        for each in (model(), abreast.parallelize(model(), 2)):
            iterators.clear()
            trained(each)
            counts.append(len(iterators))
        return counts
    finally:
        setattr(epoch_iterator, name, ahead)
        trainer.jax = jax  # type: ignore[attr-defined]


def test_keras_reads_no_batch_ahead_of_a_feed_which_does_so_itself(workers: Workers) -> None:
    if workers.backend != "jax":
        pytest.skip("of JAX")
    plain_fit, placed_fit = workers.abreast.run(batches_ahead)
    assert plain_fit > 0
    assert placed_fit == 0
