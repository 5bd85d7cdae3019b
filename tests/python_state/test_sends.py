"""A model goes to PyTorch's workers once: calls that change nothing send nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.client import Workers


def sends(kind: str) -> list[int]:
    """In a worker: how often the model was sent to the workers up to the end of each call."""
    import keras
    import numpy as np

    import abreast
    from abreast.backend.torch.python_state import PythonState

    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.dense = keras.layers.BatchNormalization(), keras.layers.Dense(1)

        def call(self, x: object) -> object:
            return self.dense(self.norm(x))

    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    inputs = keras.Input((4,))
    made: dict[str, Callable[[], Any]] = {
        "sequential": lambda: keras.Sequential([inputs, *layers]),
        "deferred": lambda: keras.Sequential(layers),
        "functional": lambda: keras.Model(inputs, layers[2](layers[1](layers[0](inputs)))),
        "nested": lambda: keras.Sequential([keras.Sequential(layers[:2]), layers[2]]),
        "subclassed": Own,
    }
    model = made[kind]()
    model.compile("adam", "mse", metrics=["mae"])
    abreast.parallelize(model)
    found, plain = 0, PythonState.dump_model

    def counted(self: PythonState) -> bytes:
        nonlocal found
        found += 1
        return plain(self)

    x = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
    y = x[:, :1]
    counts = []
    calls: list[Callable[[], Any]] = [
        *[lambda: model.fit(x, y, batch_size=6, validation_data=(x, y), verbose=0)] * 3,
        lambda: model.evaluate(x, y, verbose=0),
        lambda: model.predict(x, verbose=0),
        lambda: model.train_on_batch(x, y),
        lambda: model.fit(x, y, batch_size=6, verbose=0),
    ]
    PythonState.dump_model = counted  # type: ignore[method-assign]
    try:
        for call in calls:
            call()
            counts.append(found)
    finally:
        PythonState.dump_model = plain  # type: ignore[method-assign]
    return counts


@pytest.mark.parametrize("kind", ["sequential", "deferred", "functional", "nested", "subclassed"])
def test_an_unchanged_model_is_sent_once(workers: Workers, kind: str) -> None:
    if workers.backend != "torch":
        pytest.skip("one process drives all devices: nothing is sent")
    assert workers.abreast.run(sends, kind=kind) == [1] * 7
