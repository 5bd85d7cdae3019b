"""Strategies of `tf.distribute` in a script of `abreast run`: taken over, with the result of one device, or refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.client import ROOT, RemoteError, Worker
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    skip_unless_installed("tensorflow")
    worker = Worker("tensorflow", 4)
    yield worker
    assert not worker.close()


@contextmanager
def as_a_script() -> Iterator[None]:
    """As under `abreast run --devices 4`."""
    from abreast.backend import current_backend
    from abreast.parallel import default_placement

    with default_placement(4) as placement, current_backend().taking_over(placement.num_devices):
        yield


def model(built: bool = True) -> Any:
    import keras

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([*([keras.Input((4,))] if built else []), *layers])
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return model


def data() -> tuple[Any, Any]:
    import numpy as np

    x = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def trained(model: Any, *source: Any, **options: Any) -> Any:
    history = model.fit(*source, epochs=2, shuffle=False, verbose=0, **options).history
    return {"history": history, "weights": model.get_weights()}


def on_one_device() -> Any:
    return trained(model(), *data(), batch_size=16)


def in_a_scope(kind: str, built: bool) -> Any:
    import tensorflow as tf

    with as_a_script():
        strategy = tf.distribute.MirroredStrategy() if kind == "mirrored" else tf.distribute.OneDeviceStrategy("/CPU:0")
        with strategy.scope():
            made = model(built)
        found = trained(made, *data(), batch_size=16)
        return found | {"replicas": strategy.num_replicas_in_sync, "is": isinstance(strategy, tf.distribute.Strategy)}


@pytest.fixture(scope="module")
def expected(worker: Worker) -> Any:
    return worker.run(on_one_device)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("kind", "replicas", "built"),
    [
        ("mirrored", 4, False),
        ("one device", 1, True),
        pytest.param("mirrored", 4, True, marks=pytest.mark.full),
        pytest.param("one device", 1, False, marks=pytest.mark.full),
    ],
)
def test_a_model_in_a_scope_trains_as_on_one_device(
    worker: Worker, expected: Any, kind: str, replicas: int, built: bool
) -> None:
    found = worker.run(in_a_scope, kind=kind, built=built)
    assert largest_difference(expected["weights"], found["weights"]) < 1e-5  # measured 5e-7
    assert largest_difference(expected["history"], found["history"]) < 1e-5
    assert found["replicas"] == replicas
    assert found["is"]


def distributed_sources() -> Any:
    """The weights after a training from a distributed data set, and from a function that gives batches of replicas."""
    import tensorflow as tf

    x, y = data()

    def batches_of_replicas(context: Any) -> Any:
        dataset = tf.data.Dataset.from_tensor_slices((x, y))
        return dataset.batch(context.get_per_replica_batch_size(16)).repeat(2)

    with as_a_script():
        strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
        with strategy.scope():
            models = [model(), model()]
        whole = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        parts = strategy.distribute_datasets_from_function(batches_of_replicas)
        first = trained(models[0], strategy.experimental_distribute_dataset(whole))
        rows = [len(batch[0]) for batch in parts]
        second = trained(models[1], parts.take(3))
    return first, second, rows


def first_batches() -> Any:
    x, y = data()
    return trained(model(), x[:48], y[:48], batch_size=16)


@pytest.mark.in_turn
def test_distributed_data_sets_are_read_as_what_they_were_made_of(worker: Worker, expected: Any) -> None:
    first, second, rows = worker.run(distributed_sources)
    assert largest_difference(expected["weights"], first["weights"]) < 1e-5  # measured 5e-7
    assert largest_difference(worker.run(first_batches)["weights"], second["weights"]) < 1e-5
    # Twelve batches of 4 rows and one of 2, twice: four at a time, in their order.
    assert rows == [16, 16, 16, 14, 16, 16, 6]


class Rows(NamedTuple):
    """A tuple that tf.data passes whole."""

    x: Any
    y: Any


def joined_batches() -> Any:
    """Global batches from batches of 3 rows: of dictionaries, with a known number of rows, and of one array."""
    import tensorflow as tf

    from abreast.backend.tensorflow.own_strategies import joined

    numbers = tf.data.Dataset.range(10)
    pairs = tf.data.Dataset.from_tensor_slices(({"a": tf.reshape(tf.range(40), (10, 2, 2))}, tf.range(10)))
    known = joined(pairs.batch(3, drop_remainder=True), 2)
    named = Rows(tf.range(4), tf.range(4))
    (whole,) = joined(tf.data.Dataset.from_tensor_slices(named).batch(2), 2)
    assert (type(whole), len(whole.x)) == (type(named), 4)
    return (
        [batch.tolist() for batch in joined(numbers.batch(3), 2).as_numpy_iterator()],
        [(batch["a"].shape, labels.tolist()) for batch, labels in known.as_numpy_iterator()],
    )


def test_batches_of_replicas_are_joined_in_their_order(worker: Worker) -> None:
    numbers, pairs = worker.run(joined_batches)
    assert numbers == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    assert pairs == [((6, 2, 2), [0, 1, 2, 3, 4, 5]), ((3, 2, 2), [6, 7, 8])]


def what_a_script_sees() -> dict[str, Any]:
    """Answers of `tf.distribute` and of a model, in and after a scope, and what the names are after the script."""
    import tensorflow as tf

    plain = tf.distribute.MirroredStrategy, tf.distribute.get_strategy
    with as_a_script():
        strategy = tf.distribute.MirroredStrategy()
        before = tf.distribute.get_strategy().num_replicas_in_sync
        with strategy.scope() as scoped:
            made = model()
            inside = tf.distribute.get_strategy() is strategy and tf.distribute.has_strategy()
        found = {
            "scope": scoped is strategy,
            "before": before,
            "inside": inside,
            "after": tf.distribute.has_strategy(),
            "of the model": made.distribute_strategy is strategy,
            "mirrored": isinstance(strategy, tf.distribute.MirroredStrategy),
            "local": [len(strategy.experimental_local_results(made.layers[0].kernel)), made.layers[0].kernel.shape[0]],
        }
        tf.distribute.experimental_set_strategy(strategy)
        found["set"] = tf.distribute.get_strategy() is strategy
    names = (tf.distribute.MirroredStrategy, tf.distribute.get_strategy)
    return found | {"restored": names == plain, "no longer set": not tf.distribute.has_strategy()}


@pytest.mark.in_turn
def test_a_script_sees_its_strategy_and_keras_sees_none(worker: Worker) -> None:
    found = worker.run(what_a_script_sees)
    assert found.pop("before") == 1
    assert found.pop("after") is False
    assert found.pop("local") == [1, 4]
    assert found == dict.fromkeys(found, True)


def told_lines() -> list[str]:
    import tensorflow as tf

    from abreast.stderr import tell_once

    tell_once.cache_clear()
    with as_a_script(), redirect_stderr(StringIO()) as told:
        for _ in range(2):
            tf.distribute.MirroredStrategy()
    return told.getvalue().splitlines()


def test_one_line_says_that_a_strategy_is_taken_over(worker: Worker) -> None:
    (line,) = worker.run(told_lines)
    assert line == (
        "abreast: takes over tf.distribute.MirroredStrategy: its scope places nothing, num_replicas_in_sync is 4, and a "
        "batch is that of all devices"
    )


def make(name: str) -> None:
    import tensorflow as tf

    with as_a_script():
        part: Any = tf
        for word in name.split(".")[1:]:
            part = getattr(part, word)
        part()


@pytest.mark.parametrize(
    "name",
    [
        "tf.distribute.MultiWorkerMirroredStrategy",
        "tf.distribute.experimental.MultiWorkerMirroredStrategy",
        "tf.distribute.ParameterServerStrategy",
        "tf.distribute.experimental.ParameterServerStrategy",
        "tf.distribute.TPUStrategy",
        "tf.distribute.experimental.TPUStrategy",
        "tf.distribute.experimental.CentralStorageStrategy",
        "tf.compat.v1.distribute.MirroredStrategy",
        "tf.compat.v1.distribute.OneDeviceStrategy",
    ],
)
def test_other_strategies_are_refused_by_name(worker: Worker, name: str) -> None:
    with pytest.raises(RemoteError) as caught:
        worker.run(make, name=name)
    assert "ModelError" in caught.value.kinds
    message, _, hint = caught.value.message.partition("\nhint: ")
    assert message == f"the script makes a {name}, which abreast cannot take over"
    assert "write tf.distribute.MirroredStrategy()" in hint


def own_loop(method: str) -> None:
    import tensorflow as tf

    with as_a_script():
        strategy = tf.distribute.MirroredStrategy()
        getattr(strategy, method)(lambda: None)


@pytest.mark.parametrize("method", ["run", "reduce", "gather", "experimental_distribute_values_from_function"])
def test_loops_with_a_strategy_are_refused_by_name(worker: Worker, method: str) -> None:
    with pytest.raises(RemoteError, match=f"the script calls {method} of a tf.distribute.MirroredStrategy") as caught:
        worker.run(own_loop, method=method)
    assert "model.train_on_batch" in caught.value.message


def loop_in_a_function() -> None:
    import tensorflow as tf

    with as_a_script():
        strategy = tf.distribute.MirroredStrategy()

        @tf.function  # type: ignore[untyped-decorator]
        def step() -> Any:
            return strategy.run(lambda: 1)

        step()


def test_a_loop_under_tf_function_is_refused_with_the_same_error(worker: Worker) -> None:
    """TensorFlow wraps the errors of its functions in its own."""
    with pytest.raises(RemoteError, match=r"the script calls run of a tf\.distribute\.MirroredStrategy") as caught:
        worker.run(loop_in_a_function)
    assert caught.value.kinds[0] == "ModelError"


def device_of_another_host() -> None:
    import tensorflow as tf

    with as_a_script():
        tf.distribute.MirroredStrategy(["/job:worker/task:1/GPU:0", "/job:worker/task:0/GPU:0"])


def test_devices_of_other_hosts_are_refused(worker: Worker) -> None:
    with pytest.raises(RemoteError, match="names /job:worker/task:1/GPU:0, a device of another host"):
        worker.run(device_of_another_host)


def step_that_divides() -> None:
    import keras
    import tensorflow as tf

    with as_a_script():
        strategy = tf.distribute.MirroredStrategy()

        class Divides(keras.Model):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.dense = keras.layers.Dense(1)

            def call(self, x: Any) -> Any:
                return self.dense(x)

            def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
                return super().compute_loss(*args, **kwargs) / strategy.num_replicas_in_sync

        made = Divides()
        made.compile("sgd", "mse")
        made.fit(*data(), verbose=0)


def test_a_step_that_divides_by_the_number_of_replicas_is_refused(worker: Worker) -> None:
    """Its gradients would be smaller than those of the strategy, which adds them up."""
    with pytest.raises(RemoteError, match=r"a step reads num_replicas_in_sync of a tf\.distribute\.MirroredStrategy"):
        worker.run(step_that_divides)


def cut_by_a_strategy() -> None:
    import tensorflow as tf

    import abreast

    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data()).batch(16))
    abreast.parallelize(model(), 2).fit(dataset, shuffle=False, verbose=0)


def test_batches_that_a_strategy_has_cut_are_refused(worker: Worker) -> None:
    with pytest.raises(RemoteError, match=r"gives batches that a tf\.distribute strategy has cut") as caught:
        worker.run(cut_by_a_strategy)
    assert caught.value.message.endswith(
        "pass fit the data set itself, not what experimental_distribute_dataset made of it"
    )


def models_in_a_strategy_of_their_own() -> list[str]:
    """What each method of a model raises that a script placed and made in the scope of a strategy."""
    import abreast

    x, y = data()
    with _mirrored().scope():
        made = abreast.parallelize(model(built=False), 2)
    calls = {"fit": (x, y), "evaluate": (x, y), "predict": (x,), "train_on_batch": (x, y), "predict_on_batch": (x,)}
    return [_error_of(getattr(made, name), *arguments) for name, arguments in calls.items()]


def _mirrored() -> Any:
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])


def _error_of(method: Any, *arguments: Any) -> str:
    from abreast import errors

    try:
        method(*arguments)
    except errors.ModelError as error:
        return error.message
    return "none"


def test_a_placed_model_in_a_scope_is_refused_by_each_method(worker: Worker) -> None:
    errors = worker.run(models_in_a_strategy_of_their_own)
    assert errors == ["a model belongs to a tf.distribute.MirroredStrategy, and abreast distributes it, too"] * 5


_SCRIPT = """
import tensorflow as tf
strategy = tf.distribute.MirroredStrategy()
batch_size = 4 * strategy.num_replicas_in_sync
import sys
sys.path.append({root!r})
from tests.test_strategies import data, model
with strategy.scope():
    made = model(built=False)
made.fit(*data(), batch_size=batch_size, epochs=2, shuffle=False, verbose=0)
print(batch_size, [float(weight.sum()) for weight in made.get_weights()])
"""


@pytest.mark.in_turn
def test_an_unchanged_script_with_a_strategy_runs(expected: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT.format(root=str(ROOT)))
    command = [sys.executable, "-m", "abreast", "run", "--backend", "tensorflow", "--cpu-devices", "4", str(script)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    batch_size, _, sums = done.stdout.partition(" ")
    assert batch_size == "16"
    assert largest_difference([[float(weight.sum()) for weight in expected["weights"]]], [eval(sums)]) < 1e-5
    assert done.stderr.count("takes over tf.distribute.MirroredStrategy") == 1
