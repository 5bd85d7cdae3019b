"""Arrays of variables that code keeps past a step on JAX stay what they are, and no other array is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.client import Workers


def test_a_kept_array_stays_and_no_other_one_is_copied(workers: Workers) -> None:
    if workers.backend != "jax":
        pytest.skip("steps write into the memory of the variables")
    found = workers.abreast.run(copies)
    assert found["copied"] == []
    assert found["kept"] == 1
    assert found["difference"] == 0.0


def copies() -> dict[str, Any]:
    """In a worker: the calls that copied arrays, and the number of copies and the change of an array that a callback keeps."""
    import jax
    import keras
    import numpy as np

    import abreast
    from abreast.replacing import replaced

    class Looks(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.get_weights()
            self.model.evaluate(x, y, verbose=0)

    class Keeps(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                kept.append(self.model.layers[0].kernel.value)
                before.append(np.copy(kept[0]))

    def copy(value: Any) -> Any:
        number.append(value)
        return plain(value)

    kept, before, number, copied = [], [], [], []  # type: ignore[var-annotated]
    plain: Any = jax.numpy.copy
    x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
    y = x[:, :1]
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"])
    abreast.parallelize(model, devices=2)
    calls: dict[str, Callable[[], Any]] = {
        "fit": lambda: model.fit(x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0),
        "train_on_batch": lambda: model.train_on_batch(x, y),
        "test_on_batch": lambda: model.test_on_batch(x, y),
        "predict_on_batch": lambda: model.predict_on_batch(x),
        "fit after them": lambda: model.fit(x, y, batch_size=8, verbose=0, callbacks=[Looks()]),
        "predict": lambda: model.predict(x, verbose=0),
    }
    with replaced(jax.numpy, "copy", copy):
        for name, call in calls.items():
            for _ in range(2):
                call()
            copied += [name] if number else []
            number.clear()
        model.fit(x, y, batch_size=8, verbose=0, callbacks=[Keeps()])
    return {"copied": copied, "kept": len(number), "difference": float(np.abs(kept[0] - before[0]).max())}
