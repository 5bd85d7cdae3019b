"""Bodies of `test_models.py`, which run in workers with a framework."""

from __future__ import annotations

from typing import Any


def sizes(names: list[str]) -> dict[str, tuple[int, Any]]:
    """Weights and input shape of models by name."""
    from abreast.bench import models

    found = {}
    for name in names:
        model = models.build(name)
        found[name] = (int(model.count_params()), list(model.input_shape[1:]))
    return found


def missing_applications() -> tuple[list[str], list[str]]:
    """Names of ours that Keras does not have, and models of Keras that we do not list."""
    import keras

    from abreast.bench.models import APPLICATIONS

    theirs = {name for name, value in vars(keras.applications).items() if callable(value) and name[0].isupper()}
    return sorted(set(APPLICATIONS) - theirs), sorted(theirs - set(APPLICATIONS))


def rows_made_on_the_device(tokens: int | None) -> Any:
    """Two rows of a model's input out of one number each."""
    import keras
    import numpy as np

    from abreast.bench.front import OnDevice

    numbers = keras.Input((1,))
    model = keras.Model(numbers, OnDevice((3, 2), tokens)(numbers))
    return np.asarray(model.predict_on_batch(np.array([[0.25], [0.5]], "float32"))).tolist()


def clocked(steps_per_epoch: int) -> tuple[float, int, int]:
    """Seconds per step of a fit whose batches are slow, how often it waited, and how many batches began."""
    import time

    import keras
    import numpy as np

    from abreast.bench.clock import seconds_per_step

    waits, begun = [], []

    class Slow(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            begun.append(batch)
            time.sleep(0.02)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((2 * steps_per_epoch, 2), "float32")
    arguments = {"x": x, "y": x[:, :1], "batch_size": 2, "callbacks": [Slow()]}
    seconds = seconds_per_step(model, arguments, 2, 5, lambda: waits.append(1))
    return seconds, len(waits), len(begun)
