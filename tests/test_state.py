"""A training's state, read and restored: the same steps follow again, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers


def test_a_restored_training_repeats_itself(workers: Workers) -> None:
    first, second = workers.abreast.run(train_twice)
    assert first.keys() == second.keys()
    assert first["best"] > 0
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


@pytest.mark.parametrize("left_out", ["variables", "random"])
def test_a_training_that_is_not_fully_restored_differs(workers: Workers, left_out: str) -> None:
    first, second = workers.abreast.run(train_twice, left_out=left_out)
    assert any(not np.array_equal(value, second[name]) for name, value in first.items())


def train_twice(left_out: str = "") -> list[dict[str, Any]]:
    """In a worker: the same fit twice, from the same state; returns weights, optimizer, losses and draws of each."""
    import random
    from dataclasses import replace

    import keras

    import abreast
    from abreast.state import RandomState, TrainingState

    keras.utils.set_random_seed(1)  # else TensorFlow draws the order of rows from nowhere
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    abreast.parallelize(model, 2)
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    halving = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=100.0)
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[halving])
    halving.on_train_begin = lambda logs=None: None  # else Keras's callback begins anew by itself

    state, draws = TrainingState.read(model, [halving]), RandomState.read()
    if left_out == "variables":
        state = replace(state, variables=())
    found = []
    for _ in range(2):
        history = model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[halving]).history
        weights = {variable.path: np.array(variable) for variable in (*model.variables, *model.optimizer.variables)}
        numbers = {"python": random.random(), "numpy": np.random.random(), "best": float(halving.best)}
        found.append(weights | {name: np.array(values) for name, values in history.items()} | numbers)
        state.put_back()
        if left_out != "random":
            draws.put_back()
    return found
