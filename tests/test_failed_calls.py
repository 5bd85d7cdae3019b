"""After a call that failed, on every backend: the error is the user's own, and the weights are those of the last step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.differences import largest_difference

PLANTED = "planted in a source"


@pytest.mark.in_turn
@pytest.mark.parametrize(("source", "step"), [("generator", 0), ("generator", 2), ("dataset", 2), ("callback", 2)])
def test_a_fit_that_fails_leaves_the_last_finished_step(workers: Workers, source: str, step: int) -> None:
    end = workers.abreast.run(end_of_fit, source=source, step=step)
    assert end["kind"] == ("KeyboardInterrupt" if source == "callback" else "RuntimeError")
    assert PLANTED in end["message"]
    assert f"{Path(__file__).name}:{line_of('def planted') + 1}" in end["frames"]
    assert end["missing"] == []
    assert end["difference"] == 0.0
    assert end["next_difference"] > 1e-4


@pytest.mark.in_turn
def test_a_first_step_that_fails_leaves_the_weights_of_a_model_with_averages(workers: Workers) -> None:
    """At the end of `fit`, Keras replaces weights by averages; on JAX after failures, too."""
    end = workers.abreast.run(end_of_first_step)
    assert end["kind"] == "KeyboardInterrupt"
    assert PLANTED in end["message"]
    assert end["missing"] == []
    assert end["difference"] == 0.0
    assert end["next_difference"] > 1e-4


@pytest.mark.in_turn
@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_a_failing_evaluate_or_predict_changes_no_weight(workers: Workers, call: str) -> None:
    end = workers.abreast.run(end_of_call, call=call)
    assert end["kind"] == "RuntimeError"
    assert PLANTED in end["message"]
    assert end["missing"] == []
    assert end["difference"] == 0.0
    assert end["next_difference"] > 1e-4


def test_two_models_that_hold_one_array_train(workers: Workers) -> None:
    """On JAX each step uses up the memory of its model's variables; a program of several devices would end the process."""
    given, found = workers.abreast.run(biases_of_a_shared_array)
    assert given == found


def line_of(words: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(words))


# Bodies.


def biases_of_a_shared_array() -> tuple[float, float]:
    """The bias that a model has given to another one, and the same after the other one's training."""
    import keras
    import numpy as np

    import abreast

    x = np.ones((8, 4), "float32")
    one, other = (keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]) for _ in range(2))
    for model in (one, other):
        model.compile("sgd", "mse")
        abreast.parallelize(model, devices=2).fit(x, x[:, :1], verbose=0)
    given = float(other.layers[0].bias[0])
    one.layers[0].bias.assign(other.layers[0].bias)
    one.fit(x, x[:, :1], verbose=0)
    found = float(other.layers[0].bias[0])
    other.fit(x, x[:, :1], verbose=0)
    return given, found


def planted(kind: type[BaseException] = RuntimeError) -> Any:
    raise kind(PLANTED)


def task() -> tuple[Any, Any, Any]:
    """A model on four devices and 96 rows: six batches of 16."""
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(6), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(96, 4)).astype("float32"), draws.normal(size=(96, 3)).astype("float32")
    return abreast.parallelize(model, devices=4), x, y


def failing(source: str, x: Any, y: Any, step: int) -> Any:
    """Batches of 16 rows of which number `step` fails."""
    import keras

    class Dataset(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return len(x) // 16

        def __getitem__(self, index: int) -> Any:
            if index == step:
                planted()
            rows = slice(16 * index, 16 * index + 16)
            return x[rows], y[rows]

    return Dataset() if source == "dataset" else (Dataset()[index] for index in range(6))


def end_of_fit(source: str, step: int) -> dict[str, Any]:
    import keras

    model, x, y = task()
    before = model.get_weights()
    if source == "callback":
        callback = keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: planted(KeyboardInterrupt) if batch == step else None
        )
        end = end_of(lambda: model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=[callback]))
    else:
        end = end_of(lambda: model.fit(failing(source, x, y, step), steps_per_epoch=6, shuffle=False, verbose=0))
    after = state(model) if step else model.get_weights()
    finished, x, y = task()
    if step:
        finished.fit(x[: 16 * step], y[: 16 * step], batch_size=16, shuffle=False, verbose=0)
    end["difference"] = largest_difference(after, state(finished) if step else before)
    return end | standing(model, x, y)


def end_of_first_step() -> dict[str, Any]:
    """A signal that comes to this process while the step is compiled, which takes longest."""
    import os

    import keras

    model, x, y = task()
    steps: list[int] = []
    process = os.getpid()  # PyTorch's workers run the loss, too

    def loss(y: Any, predicted: Any) -> Any:
        return (
            planted(KeyboardInterrupt)
            if steps and os.getpid() == process
            else keras.losses.mean_squared_error(y, predicted)
        )

    model.compile(keras.optimizers.Adam(0.01, use_ema=True), loss)
    before = model.get_weights()
    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: steps.append(batch))
    end = end_of(lambda: model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=[callback]))
    steps.clear()
    end["difference"] = largest_difference(model.get_weights(), before)
    return end | standing(model, x, y)


def end_of_call(call: str) -> dict[str, Any]:
    model, x, y = task()
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    before = state(model)
    end = end_of(lambda: getattr(model, call)(failing("generator", x, y, 2), steps=6, verbose=0))
    return end | {"difference": largest_difference(before, state(model))} | standing(model, x, y)


def end_of(call: Any) -> dict[str, Any]:
    import traceback

    try:
        call()
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "kind": type(error).__name__,
            "message": str(error),
            "frames": [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames],
        }
    raise AssertionError("the call did not fail")


def standing(model: Any, x: Any, y: Any) -> dict[str, Any]:
    """Variables without a value, and how far the next fit moves the weights."""
    variables = [*model.variables, *model.optimizer.variables]
    missing = [variable.path for variable in variables if variable._value is None]
    before = model.get_weights()
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    return {"missing": missing, "next_difference": largest_difference(before, model.get_weights())}


def state(model: Any) -> list[Any]:
    """Weights, then the optimizer's variables, if it has them yet."""
    import numpy as np

    return [*model.get_weights(), *(np.array(variable) for variable in model.optimizer.variables)]
