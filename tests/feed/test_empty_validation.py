"""A data set of validation that has no rows: Keras warns and trains on, and so do placed models."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.installed import keras_is_older_than


def fit(devices: int, source: str) -> dict[str, Any]:
    """In a worker: the history, and the warnings."""
    import warnings

    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices)
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    y = x[:, :1]
    empty = {"arrays": (x[:0], y[:0]), "tf.data": tf.data.Dataset.from_tensor_slices((x[:0], y[:0])).batch(4)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = model.fit(x, y, batch_size=4, epochs=2, validation_data=empty[source], verbose=0).history
    return {"history": history, "ran out": sum("ran out of data" in str(each.message) for each in caught) > 0}


@pytest.mark.in_turn
@pytest.mark.parametrize("source", ["tf.data", "arrays"])
def test_a_fit_with_an_empty_validation_trains_and_warns(workers: Workers, source: str) -> None:
    placed = workers.abreast.run(fit, devices=2, source=source)
    if workers.backend == "tensorflow" or keras_is_older_than("3.16"):
        assert placed["ran out"]
    assert set(placed["history"]) == {"loss"}
    if (workers.backend, source) != ("jax", "arrays"):  # plain Keras: `'NoneType' object is not callable`
        plain = workers.plain.run(fit, devices=0, source=source)
        assert placed["ran out"] == plain["ran out"] and placed["history"]["loss"] == pytest.approx(
            plain["history"]["loss"], rel=1e-5
        )
