"""Warnings point at a line of the user's, not at one of abreast, Keras or a framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.client import Workers


def fit_what_is_warned_of() -> dict[str, list[str]]:
    """In a worker: the files that the warnings of each fit point at."""
    import warnings

    import keras
    import numpy as np

    import abreast

    class OwnStep(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: object) -> object:
            return self.dense(x)

        def train_step(self, *arguments: object) -> object:
            return super().train_step(*arguments)

    def frozen() -> Any:
        model = keras.Sequential([keras.layers.Dense(1)])
        model.trainable = False
        return model

    x = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
    models: dict[str, Callable[[], Any]] = {
        "own step": OwnStep,
        "frozen": frozen,
        "dropout": lambda: keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(1)]),
        "staging": lambda: keras.Sequential([keras.layers.Dense(1)]),
    }
    files = {}
    for name, make in models.items():
        model = make()
        model.compile("sgd", "mse")
        abreast.parallelize(model, prefetch_bytes=1 if name == "staging" else None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, x[:, :1], batch_size=5, verbose=0)
        # What NumPy deprecates in Keras is Keras's.
        files[name] = sorted({each.filename for each in caught if each.category is UserWarning})
    return files


def test_warnings_point_at_the_users_line(workers: Workers) -> None:
    files = workers.abreast.run(fit_what_is_warned_of)
    assert files.pop("frozen") in ([__file__], [])  # plain Keras on JAX says nothing
    said = {name for name, where in files.items() if where}
    assert said >= ({"staging"} if workers.backend == "jax" else {"staging", "dropout", "own step"})
    assert all(where == [__file__] for where in files.values() if where)
