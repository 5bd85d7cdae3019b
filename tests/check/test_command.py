"""`abreast check` as a user types it, and `abreast.check`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from tests.harness.client import BACKENDS, NUM_DEVICES, ROOT, Worker, Workers
from tests.harness.differences import largest_difference
from tests.harness.folder import Folder

BEGIN = """
    import sys
    import keras, numpy as np
    x, y = np.random.rand(40, 3), np.random.rand(40, 1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="hidden"), keras.layers.Dense(1, name="last")])
    model.compile("sgd", "mse", metrics=["mae"])
"""
TRAINS = (
    BEGIN
    + """
    history = model.fit(x, y, batch_size=8, epochs=100, validation_split=0.2, verbose=0)
    print("epochs", len(history.history["loss"]), sys.argv[1:], sys.stdin.read())
    print(model.evaluate(x, y, verbose=0), model.predict(x, verbose=0).shape)
"""
)
IN_HALF = """
import sys

import keras
import numpy as np

keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
placed = sys.modules.get("abreast.placed_models")
is_placed = placed is not None and placed._default is not None
keras.utils.set_random_seed(0)
x = np.random.rand(512, 8).astype("float32")
y = (x @ np.arange(8) / 8)[:, None]
last = keras.layers.Dense(1, dtype="float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), last])
model.compile(keras.optimizers.SGD(0.02), "mse")
model.fit(x * (FACTOR if is_placed else 1.0), y, batch_size=64, epochs=2, verbose=0)
"""
RELATES_ROWS = """
import keras, numpy as np

class Centred(keras.layers.Layer):
    def call(self, x):
        return x - keras.ops.mean(x, axis=0, keepdims=True)

x, y = np.random.rand(40, 3), np.random.rand(40, 1)
model = keras.Sequential([keras.Input((3,)), Centred(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=8, verbose=0)
"""
FROM_A_PYDATASET = (
    BEGIN
    + """
    class Blocks(keras.utils.PyDataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return x[index : index + 8], y[index : index + 8]

    model.fit(Blocks(), verbose=0)
"""
)
BY_DEVICES = (
    BEGIN
    + """
    import abreast
    model.optimizer.learning_rate = 0.01 * len(abreast.devices())
    model.fit(x, y, batch_size=8, verbose=0)
"""
)


@pytest.mark.full
def test_an_exact_script_is_equal_and_runs_on_after_its_shortened_fit(folder: Folder) -> None:
    folder.write("train.py", TRAINS)
    result = folder.bash(f"echo input | {sys.executable} -m abreast check --backend jax --steps 6 train.py --seed 1")
    assert result.code == 0, result.err
    assert result.out.startswith("equal: 6 steps, ")
    assert "4 simulated devices, jax" in result.out
    assert result.err.count("epochs 100 ['--seed', '1'] input") == 2


@pytest.mark.full
def test_the_end_that_the_check_sets_loses_nothing_of_the_users(folder: Folder) -> None:
    folder.write("train.py", FROM_A_PYDATASET)
    result = folder.abreast("check", "--backend", "torch", "--devices", "2", "--steps", "3", "train.py")
    assert result.code == 0, result.err
    assert "read ahead" not in result.err


@pytest.mark.full
def test_announced_differences_are_listed(folder: Folder) -> None:
    folder.write("train.py", RELATES_ROWS)
    result = folder.abreast("check", "--backend", "tensorflow", "--devices", "2", "--steps", "2", "train.py")
    assert result.code == 0, result.err
    assert "announced: the rows of a batch are related to one another by Centred" in result.out


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_example_of_the_readme_is_exact(folder: Folder, backend: str) -> None:
    """On PyTorch, a choice between two nearly equal numbers changes at step 18; float64 shows that, in six runs of the script."""
    script = ROOT / "examples" / "digits.py"
    result = folder.bash(f"{sys.executable} -m abreast check --backend {backend} {script} -- --output out", seconds=280)
    assert result.code == 0, result.out
    assert result.out.startswith("equal: 20 steps, ")


@pytest.mark.full
@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.002, 1)])
def test_half_precision_hides_nothing(folder: Folder, factor: float, code: int) -> None:
    """Rounding of bfloat16 is more than two thousandths; in float64 they show."""
    folder.write("train.py", IN_HALF.replace("FACTOR", str(factor)))
    result = folder.abreast("check", "--backend", "jax", "--devices", "3", "train.py")
    assert result.code == code, result.out
    assert ("in float64, since half precision" in result.out) == (code == 0)


@pytest.mark.in_turn
def test_a_script_that_depends_on_the_number_of_devices_differs(folder: Folder) -> None:
    folder.write("train.py", BY_DEVICES)
    result = folder.abreast("check", "--json", "--backend", "jax", "--devices", "3", "train.py")
    assert result.code == 1, result.err
    verdict = json.loads(result.out)
    assert verdict["outcome"] == "differs"
    assert verdict["difference"]["where"] == "fit of sequential, before its first step"
    part = verdict["difference"]["parts"][0]
    assert (part["name"], round(part["plain"], 4), round(part["placed"], 4)) == ("sgd/learning_rate", 0.01, 0.03)
    assert verdict["reasons"][0]["name"] == "learning rate"


@pytest.mark.full
def test_a_script_that_fails_with_plain_keras_is_not_compared(folder: Folder) -> None:
    folder.write("train.py", "import keras\nraise ValueError('mine')")
    result = folder.abreast("check", "--backend", "jax", "train.py")
    assert result.code == 2
    assert "Traceback" in result.err and "train.py" in result.err
    assert "abreast: error: the script fails with plain Keras on one device: ValueError: mine" in result.err


@pytest.mark.parametrize("arguments", [("absent.py",), ("-m", "absent"), ("--steps", "0", "train.py")])
def test_an_invalid_request_is_reported_in_a_line(folder: Folder, arguments: tuple[str, ...]) -> None:
    folder.write("train.py", "print(1)")
    result = folder.abreast("check", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert "abreast: error: " in result.err and "hint: " in result.err


@pytest.mark.full
def test_a_script_that_trains_nothing_is_reported(folder: Folder) -> None:
    folder.write("train.py", "import keras\nprint('nothing')")
    result = folder.abreast("check", "--backend", "jax", "train.py")
    assert result.code == 2
    assert "train.py computed nothing that can be compared" in result.err


@pytest.mark.full
def test_an_error_of_the_plain_side_is_printed_once(folder: Folder) -> None:
    end = folder.python(
        "-m", "abreast", "check", "--backend", "torch", "--devices", "gpu:9", folder.write("s.py", "import keras\n")
    )
    assert end.code == 2 and end.err.count("error: there is no device gpu:9") == 1, end.err


@pytest.mark.full
def test_a_script_that_fails_on_devices_only_names_its_error(folder: Folder) -> None:
    fails = "\n    import abreast\n    model.fit(x, y, verbose=0)\n    assert len(abreast.devices()) == 1, 'too many'"
    folder.write("train.py", BEGIN + fails)
    result = folder.abreast("check", "--backend", "jax", "train.py")
    assert result.code == 1
    assert "reason: AssertionError: too many" in result.out


@pytest.mark.full
def test_a_module_with_arguments_is_checked(folder: Folder) -> None:
    folder.write("package/train.py", TRAINS)
    result = folder.abreast("check", "--backend", "jax", "--steps", "2", "-m", "package.train", "--more")
    assert result.code == 0, result.err
    assert "['--more']" in result.err


STOPS_IN_A_STEP = (
    BEGIN
    + """
    def batches():
        yield x, y
        raise ERROR
    model.fit(x, y, batch_size=8, verbose=0)
    model.evaluate(batches(), steps=5, verbose=0)
"""
)


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize(("error", "code", "traces"), [("KeyboardInterrupt", 130, 1), ("SystemExit(0)", 0, 0)])
def test_a_script_that_ends_within_a_step_ends_without_a_traceback_of_ours(
    folder: Folder, error: str, code: int, traces: int
) -> None:
    """As Ctrl-C does it. JAX's variables have no values then."""
    folder.write("train.py", STOPS_IN_A_STEP.replace("ERROR", error))
    result = folder.abreast("check", "--backend", "jax", "--devices", "2", "train.py")
    assert (result.code, result.err.count("Traceback")) == (code, traces), result.err


@pytest.mark.in_turn
@pytest.mark.tensorflow
def test_a_strategy_that_both_sides_take_over_is_named(folder: Folder) -> None:
    begin = "import tensorflow as tf\ntf.distribute.MirroredStrategy()\n"
    folder.write("train.py", begin + textwrap.dedent(BEGIN) + "model.fit(x, y, batch_size=8, verbose=0)\n")
    result = folder.abreast("check", "--backend", "tensorflow", "--devices", "2", "--steps", "2", "train.py")
    assert result.code == 0, result.err
    last = result.out.splitlines()[-1]
    assert last.startswith(
        "taken over on both sides: tf.distribute.MirroredStrategy (its scope places nothing, num_repl"
    )
    assert last.endswith("): so plain Keras here is not the script as Python alone runs it")


@pytest.mark.full
def test_ctrl_c_ends_a_check_and_its_side(folder: Folder) -> None:
    folder.write("train.py", "import keras, time\nprint('here', flush=True)\ntime.sleep(300)")
    words = [sys.executable, "-m", "abreast", "check", "--backend", "jax", "train.py"]
    process = subprocess.Popen(
        words, cwd=folder.path, env=folder.environ(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    while "here" not in process.stderr.readline():
        pass
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert time.monotonic() - start < 20
    assert not subprocess.run(["pgrep", "-s", str(process.pid)], capture_output=True, check=False).stdout


@pytest.mark.in_turn
def test_a_model_is_checked_and_left_as_it_was(workers: Workers) -> None:
    result = workers.abreast.run(check_model)
    assert result["exact"], result["text"]
    assert result["text"].startswith("equal: 5 steps")
    assert result["moved"] == 0.0
    assert result["trains"]


def check_model() -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    random = np.random.default_rng(0)
    x, y = random.normal(size=(50, 3)).astype("float32"), random.normal(size=(50, 1)).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    before = model.get_weights()
    verdict = abreast.check(model, x, y, batch_size=10, steps=5, devices=4)
    moved = largest_difference(before, model.get_weights())
    model.fit(x, y, verbose=0)
    return {
        "exact": verdict.exact,
        "text": str(verdict),
        "moved": moved,
        "trains": int(model.optimizer.iterations) == 4,
    }


@pytest.mark.in_turn
def test_a_process_that_begins_with_a_check_trains_as_plain_keras(workers: Workers) -> None:
    fresh = Worker(workers.backend, devices=NUM_DEVICES)
    try:
        placed, plain = fresh.run(check_then_train)
    finally:
        assert not fresh.close()
    assert placed == pytest.approx(plain, rel=1e-6)


def check_then_train() -> tuple[float, float]:
    """Losses of a placed fit after a check, and of plain Keras after that."""
    import keras
    import numpy as np

    import abreast

    x, y = np.arange(96.0).reshape(32, 3) / 96, np.ones((32, 1))
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, activity_regularizer="l2"), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    start = model.get_weights()
    assert abreast.check(model, x, y, batch_size=16, steps=2, devices=4).exact
    abreast.parallelize(model, devices=4)
    placed = model.evaluate(x, y, verbose=0)
    model.set_weights(start)
    other = keras.models.clone_model(model)
    other.compile("sgd", "mse")
    other.set_weights(start)
    return placed, other.evaluate(x, y, verbose=0)


@pytest.mark.full
def test_a_generator_is_checked_too(workers: Workers) -> None:
    text = workers.abreast.run(check_generator)
    assert text.startswith("equal: 3 steps"), text


def check_generator() -> str:
    import keras
    import numpy as np

    import abreast

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    batches = ((np.random.rand(8, 3), np.random.rand(8, 1)) for _ in range(10))
    return str(abreast.check(model, batches, steps=3, devices=3))


@pytest.mark.full
def test_a_difference_of_a_model_is_found_and_the_model_trains_on(workers: Workers) -> None:
    result = workers.abreast.run(check_local_norm)
    assert result["reason"] == "local BatchNormalization", result["text"]
    assert result["moved"] == 0.0
    assert result["trained"]


def check_local_norm() -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    x, y = np.arange(96.0).reshape(32, 3).astype("float32"), np.ones((32, 1), "float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = model.get_weights()
    verdict = abreast.check(model, x, y, batch_size=16, steps=2, devices=4, batch_norm="local")
    moved = largest_difference(before, model.get_weights())
    model.fit(x, y, verbose=0)
    trained = float(np.abs(before[2] - model.get_weights()[2]).max())
    return {"reason": verdict.reasons[0].name, "text": str(verdict), "moved": moved, "trained": trained}
