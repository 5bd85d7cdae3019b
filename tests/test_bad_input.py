"""Invalid input is refused by name, with a hint, before the first step, on every backend."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast import errors
from abreast.installing import install_command
from tests.harness.client import BACKENDS, ROOT, RemoteError, Workers
from tests.harness.installed import keras_is_older_than

# name of a body below -> the exception, and words of its message and hint
REFUSALS = {
    "device_that_is_not_there": ("DeviceError", "no device gpu:0, only cpu:0", "abreast run --cpu-devices"),
    "index_that_is_not_there": ("DeviceError", "no device with index 9", "use_cpu_devices"),
    "too_many_devices": ("DeviceError", "7 devices asked for, but there are 4", "--cpu-devices 7"),
    "no_devices": ("DeviceError", "0 devices asked for", "at least 1"),
    "device_twice": ("DeviceError", "cpu:1 asked for 2 times", "once"),
    "not_a_model": ("ModelError", "needs a keras.Model, not a Dense", "keras.Sequential"),
    "unknown_batch_norm": ("BackendError", "batch_norm='foo'", '"global" or "local"'),
    "no_cpu_devices": ("DeviceError", "cannot simulate 0 devices", "at least 1"),
    "cpu_devices_as_text": ("DeviceError", "cannot simulate '4' devices", "whole number"),
    "half_a_device": ("DeviceError", "devices=2.5 is no request", "a number, indices"),
    "batch_size_0": ("DataError", "batch_size=0", "at least 1 row"),
    "negative_batch_size": ("DataError", "batch_size=-4", "at least 1 row"),
    "empty_arrays": ("DataError", "the data source is empty", "at least one row"),
    "empty_arrays_to_evaluate": ("DataError", "the data source is empty", "at least one row"),
    "empty_arrays_to_predict": ("DataError", "the data source is empty", "at least one row"),
    "scalars_as_rows": ("DataError", "which has no rows", "first axis is the batch"),
    "generator_of_uneven_arrays": ("DataError", "arrays of 5 and of 4 rows", "same number of rows"),
    "batch_without_rows_first": ("DataError", "a batch without rows", "check its length"),
    "rank_without_world_size": ("LaunchError", "RANK='0' is set, but WORLD_SIZE is not", "unset these variables"),
    "rank_that_is_no_number": ("LaunchError", "RANK='first' is not a number", "unset these variables"),
    # Keras refuses these itself, and says enough.
    "unequal_rows": ("ValueError", "Data cardinality is ambiguous", ""),
    "not_compiled": ("ValueError", "compile", ""),
    "empty_generator": ("ValueError", "Received an empty generator", ""),
    "data_of_an_unknown_type": ("ValueError", "Unrecognized data type", ""),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bad_input_is_refused_before_the_first_step(workers: Workers, name: str) -> None:
    kind, message, hint = REFUSALS[name]
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(refused, name=name)
    if name == "empty_generator" and keras_is_older_than("3.14"):
        assert "IndexError" in caught.value.kinds  # as in plain Keras 3.13
        return
    assert kind in caught.value.kinds, caught.value
    what, _, how = caught.value.message.partition("\nhint: ")
    assert message in what
    assert hint in how
    assert ("AbreastError" in caught.value.kinds) == (kind != "ValueError")


@pytest.mark.parametrize(
    ("kind", "built_in"),
    [("DataError", ValueError), ("ModelError", ValueError), ("NumericsError", FloatingPointError)]
    + [(name, RuntimeError) for name in ("BackendError", "DeviceError", "LaunchError", "WorkerError")]
    + [("NotInstalledError", ModuleNotFoundError), ("NotInstalledError", errors.BackendError)],
)
def test_errors_are_of_the_kinds_that_scripts_catch(kind: str, built_in: type[Exception]) -> None:
    error = getattr(errors, kind)("what", "how")
    assert isinstance(error, built_in) and isinstance(error, errors.AbreastError)
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "what\nhint: how"


LATER: dict[str, tuple[str, ...]] = {
    "structure_change": ("a batch has the arrays", "the first one had", "same structure"),
    "batch_without_rows": ("a batch without rows", "check its length"),
}


@pytest.mark.parametrize("name", LATER)
def test_a_batch_that_does_not_fit_ends_the_fit_after_the_steps_before_it(workers: Workers, name: str) -> None:
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(refused, name=name, steps=2)
    assert "DataError" in caught.value.kinds, caught.value
    assert all(words in caught.value.message for words in LATER[name])


def test_more_simulated_devices_are_refused_once_the_framework_has_started(workers: Workers) -> None:
    if workers.backend == "torch":
        pytest.skip("devices are processes, which start later")
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(refused, name="more_cpu_devices_too_late")
    assert "BackendError" in caught.value.kinds
    assert "has already started, with" in caught.value.message
    assert "hint: call abreast.use_cpu_devices before anything is computed" in caught.value.message


def test_torch_refuses_several_steps_per_call_as_keras_does(workers: Workers) -> None:
    if workers.backend != "torch" or not keras_is_older_than("3.16"):
        pytest.skip("the others can, and so can Keras 3.16")
    with pytest.raises(RemoteError, match="`steps_per_execution` must be 1"):
        workers.abreast.run(refused, name="several_steps_per_execution")


def test_a_stateful_layer_is_refused_where_replicas_have_other_rows(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("one program holds all rows, and is exact")
    with pytest.raises(RemoteError, match=r"simple_rnn is stateful: .*\nhint: train it on one device"):
        workers.abreast.run(refused, name="stateful_layer")


def test_state_of_the_users_own_layers_is_announced(workers: Workers) -> None:
    """A sum over rows in a layer's state is computed from all rows, which costs time: a warning says so. JAX always does it."""
    warned = workers.abreast.run(warnings_of_a_layer_that_counts)
    if workers.backend == "jax":
        assert warned == []
    else:
        (message,) = warned
        assert "related to one another by Counting (a state that it changes" in message
        assert "for all rows of the batch" in message


@pytest.mark.in_turn
@pytest.mark.parametrize(("units", "accumulated"), [(4, None), (150_000, None), (4, 3)], ids=["small", "large", "kept"])
@pytest.mark.parametrize(("first", "then"), [("did", "does not"), ("did not", "does")])
def test_a_loss_that_begins_to_depend_on_other_weights_is_refused(
    workers: Workers, units: int, accumulated: int | None, first: str, then: str
) -> None:
    """PyTorch runs Python at every step, and the ranks agree at the first one which gradients they sum."""
    if workers.backend != "torch":
        pytest.skip("the others trace one step for all")
    says = f"at the first step the loss {first} depend on .*kernel, and now it {then}\nhint: use every weight"
    with pytest.raises(RemoteError, match=says):
        workers.abreast.run(train_with_a_layer_left_out, units=units, at_first=first == "did", accumulated=accumulated)


def test_a_limit_that_is_not_a_number_of_seconds_is_refused(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("only PyTorch has workers")
    with pytest.raises(
        RemoteError, match=r"ABREAST_HANG_SECONDS='abc' is not allowed\nhint: give a number of seconds above 0"
    ):
        workers.abreast.run(refused, name="hang_seconds_that_are_no_number")


@pytest.mark.in_turn
def test_without_simulated_devices_the_cpu_is_one_device(backend: str) -> None:
    done = python("import abreast; abreast.DataParallel(devices=4)", KERAS_BACKEND=backend)
    assert done.returncode == 1
    assert "DeviceError: 4 devices asked for, but there is cpu:0" in done.stderr
    assert "abreast.use_cpu_devices(4) before anything is computed" in done.stderr


def test_an_unknown_backend_is_refused() -> None:
    done = python("import abreast; abreast.DataParallel()", KERAS_BACKEND="numpy")
    assert done.returncode == 1
    assert "BackendError: Keras runs on 'numpy', which cannot train on several devices" in done.stderr
    assert "hint: set KERAS_BACKEND to jax, tensorflow or torch before keras is imported" in done.stderr


@pytest.mark.parametrize("name", BACKENDS)
def test_a_framework_that_is_not_installed_is_named(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import keras\n")
    done = python(_HIDE + f"raise SystemExit(main(['run', '--backend', {name!r}, {str(script)!r}]))", HIDDEN=name)
    assert done.returncode == 2
    assert f"abreast: error: {name} is not installed" in done.stderr
    assert f"hint: {install_command(name)}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_framework_that_is_not_installed_is_named_in_a_script_too() -> None:
    done = python(_HIDE + "import abreast; abreast.DataParallel()", HIDDEN="jax", KERAS_BACKEND="jax")
    assert done.returncode == 1
    assert "NotInstalledError: jax is not installed" in done.stderr
    assert f"hint: {install_command('jax')}" in done.stderr


_HIDE = """
import os
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec
def find_others(name, path=None, target=None):
    return None if name.partition(".")[0] == os.environ["HIDDEN"] else find_spec(name, path, target)
PathFinder.find_spec = find_others
from abreast.cli import main
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, without simulated devices."""
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    variables.pop("ABREAST_CPU_DEVICES", None)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**variables, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# Bodies.


def refused(name: str, steps: int = 0) -> None:
    """Run a request that must be refused, and check that this happens `steps` steps after the start."""
    import keras
    import numpy as np

    import abreast

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    if name != "not_compiled":
        model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4)
    before = model.get_weights()
    x = np.ones((40, 4), "float32")
    attempt: Callable[..., None] = globals()[name]
    try:
        attempt(model, x, x[:, :3])
    except Exception as error:
        taken = int(model.optimizer.iterations) if name != "not_compiled" else 0
        changed = any(bool((a != b).any()) for a, b in zip(before, model.get_weights(), strict=True))
        if (taken, changed) != (steps, steps > 0):
            raise AssertionError(f"{taken} steps were taken before the refusal, weights changed: {changed}") from error
        raise


def stateful_layer(model: Any, x: Any, y: Any) -> None:
    import keras
    import numpy as np

    import abreast

    rnn = keras.layers.SimpleRNN(3, stateful=True, name="simple_rnn")
    stateful = keras.Sequential([keras.Input((2, 4), batch_size=8), rnn])
    stateful.compile("sgd", "mse")
    abreast.parallelize(stateful, devices=4).fit(np.ones((16, 2, 4)), np.ones((16, 3)), batch_size=8, verbose=0)


def warnings_of_a_layer_that_counts() -> list[str]:
    import warnings

    import keras
    import numpy as np

    import abreast

    class Counting(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.total = self.add_weight(shape=(), name="total", initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            self.total.assign_add(keras.ops.sum(keras.ops.ones_like(x[:, 0])))
            return x

    model = keras.Sequential([keras.Input((4,)), Counting(name="counting"), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        abreast.parallelize(model, devices=4).fit(np.ones((16, 4)), np.ones((16, 3)), epochs=2, verbose=0)
    return [str(one.message) for one in caught if "Counting" in str(one.message)]


def train_with_a_layer_left_out(units: int, at_first: bool, accumulated: int | None) -> None:
    """A layer that the loss depends on at the first step only, or only later."""
    import keras
    import numpy as np

    import abreast

    class Sometimes(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def build(self, shape: Any) -> None:
            self.dense = keras.layers.Dense(units)
            self.dense.build(shape)
            self.steps = 0

        def call(self, x: Any, training: bool = False) -> Any:
            self.steps += training
            is_first = self.steps <= 1
            return x + keras.ops.mean(self.dense(x), axis=-1, keepdims=True) if is_first == at_first else x

    model = keras.Sequential([keras.Input((3,)), Sometimes(), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=accumulated), "mse")
    abreast.parallelize(model, 2)
    model.fit(np.ones((12, 3)), np.ones((12, 2)), batch_size=4, shuffle=False, verbose=0)


def device_that_is_not_there(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model, devices=["gpu:0"])


def index_that_is_not_there(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.DataParallel([0, 9])


def too_many_devices(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model, devices=7)


def no_devices(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model, devices=0)


def device_twice(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model, devices=[1, 1])


def not_a_model(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model.layers[0])


def unknown_batch_norm(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.parallelize(model, batch_norm="foo")  # type: ignore[arg-type]


def more_cpu_devices_too_late(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.use_cpu_devices(5)


def no_cpu_devices(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.use_cpu_devices(0)


def cpu_devices_as_text(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.use_cpu_devices("4")  # type: ignore[arg-type]


def half_a_device(model: Any, x: Any, y: Any) -> None:
    import abreast

    abreast.DataParallel(devices=2.5)  # type: ignore[arg-type]


def batch_size_0(model: Any, x: Any, y: Any) -> None:
    model.fit(x, y, batch_size=0, verbose=0)


def negative_batch_size(model: Any, x: Any, y: Any) -> None:
    model.predict(x, batch_size=-4, verbose=0)


def empty_arrays(model: Any, x: Any, y: Any) -> None:
    model.fit(x[:0], y[:0], verbose=0)


def empty_arrays_to_evaluate(model: Any, x: Any, y: Any) -> None:
    model.evaluate(x[:0], y[:0], verbose=0)


def empty_arrays_to_predict(model: Any, x: Any, y: Any) -> None:
    model.predict(x[:0], verbose=0)


def scalars_as_rows(model: Any, x: Any, y: Any) -> None:
    import numpy as np

    model.train_on_batch(x, np.float32(1.0))


def generator_of_uneven_arrays(model: Any, x: Any, y: Any) -> None:
    model.fit(((x[:5], y[:4]) for _ in range(3)), steps_per_epoch=3, verbose=0)


def batch_without_rows_first(model: Any, x: Any, y: Any) -> None:
    model.fit(((x[:0], y[:0]) for _ in range(3)), steps_per_epoch=3, verbose=0)


def empty_generator(model: Any, x: Any, y: Any) -> None:
    nothing: list[Any] = []
    model.fit((batch for batch in nothing), verbose=0)


def data_of_an_unknown_type(model: Any, x: Any, y: Any) -> None:
    model.fit(iter([(x, y)]), verbose=0)


def unequal_rows(model: Any, x: Any, y: Any) -> None:
    model.fit(x, y[:5], verbose=0)


def not_compiled(model: Any, x: Any, y: Any) -> None:
    model.fit(x, y, verbose=0)


def rank_without_world_size(model: Any, x: Any, y: Any) -> None:
    _in_a_world(RANK="0")


def rank_that_is_no_number(model: Any, x: Any, y: Any) -> None:
    _in_a_world(RANK="first", WORLD_SIZE="2")


def _in_a_world(**variables: str) -> None:
    import abreast

    os.environ.update(variables)
    try:
        abreast.DataParallel(4)
    finally:
        for variable in variables:
            del os.environ[variable]


def several_steps_per_execution(model: Any, x: Any, y: Any) -> None:
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(x, y, verbose=0)


def hang_seconds_that_are_no_number(model: Any, x: Any, y: Any) -> None:
    from abreast.backend.torch.backend import BACKEND

    if BACKEND.leader.team is not None:
        BACKEND.leader.team.close()
    os.environ["ABREAST_HANG_SECONDS"] = "abc"
    try:
        model.fit(x, y, verbose=0)
    finally:
        del os.environ["ABREAST_HANG_SECONDS"]


def structure_change(model: Any, x: Any, y: Any) -> None:
    batches = [(x[:5], y[:5]), (x[:5], y[:5]), (x[:5], y[:5], x[:5, 0])]
    model.fit((batch for batch in batches), steps_per_epoch=3, verbose=0)


def batch_without_rows(model: Any, x: Any, y: Any) -> None:
    batches = [(x[:5], y[:5]), (x[:5], y[:5]), (x[:0], y[:0])]
    model.fit((batch for batch in batches), steps_per_epoch=3, verbose=0)
