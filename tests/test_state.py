"""A training's state, read and restored: the same steps follow again, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers


@pytest.mark.in_turn
@pytest.mark.parametrize("moment", ["before the first fit", "between two", "before the workers end"])
def test_a_restored_training_repeats_itself(workers: Workers, moment: str) -> None:
    first, second = workers.abreast.run(train_twice, moment=moment)
    assert first.keys() == second.keys()
    assert first["best"] > 0
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


@pytest.mark.in_turn
@pytest.mark.parametrize("left_out", ["variables", "random"])
def test_a_training_that_is_not_fully_restored_differs(workers: Workers, left_out: str) -> None:
    first, second = workers.abreast.run(train_twice, left_out=left_out)
    assert any(not np.array_equal(value, second[name]) for name, value in first.items())


def test_generators_are_restored_without_the_rest(workers: Workers) -> None:
    first, second = workers.abreast.run(draw_twice)
    assert first == second


def train_twice(moment: str = "between two", left_out: str = "") -> list[dict[str, Any]]:
    """In a worker: the same fit twice, from the same state; returns weights, optimizer, losses and draws of each.

    On PyTorch, each device draws what its rows drop, and a module has buffers.
    """
    import random
    from dataclasses import replace

    import keras

    import abreast
    from abreast.doctor.keep import build
    from abreast.state import RandomState, TrainingState

    keras.utils.set_random_seed(1)  # else TensorFlow draws the order of rows from nowhere
    wrapped: list[Any] = []
    if keras.backend.backend() == "torch":
        import torch

        wrapped = [keras.layers.TorchModuleWrapper(torch.nn.BatchNorm1d(4))]
    layers = [keras.layers.Dense(4), *wrapped, keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    placement = abreast.DataParallel(2)
    abreast.parallelize(model, 2)
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    build(model, (x, x[:, :1]))
    halving = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=100.0)
    halving.on_train_begin = lambda logs=None: None  # else Keras's callback begins anew by itself
    if moment != "before the first fit":
        model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[halving])

    state, draws = TrainingState.read(model, [halving]), RandomState.read(model)
    if left_out == "variables":
        state = replace(state, variables=())
    found = []
    for _ in range(2):
        history = model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[halving]).history
        weights = {variable.path: np.array(variable) for variable in (*model.variables, *model.optimizer.variables)}
        weights |= {name: np.array(buffer) for each in wrapped for name, buffer in each.module.named_buffers()}
        numbers = {"python": random.random(), "numpy": np.random.random(), "best": float(halving.best)}
        found.append(weights | {name: np.array(values) for name, values in history.items()} | numbers)
        if moment == "before the workers end":
            placement.close()
        state.put_back()
        if left_out != "random":
            draws.put_back(model)
    return found


def draw_twice() -> list[list[float]]:
    """In a worker: numbers of the generators of Python, NumPy and Keras, twice from the same state."""
    import random

    import keras

    from abreast.state import RandomState

    model = keras.Sequential([keras.layers.Dense(1)])
    keras.random.uniform(())  # makes Keras's generator
    draws = RandomState.read(model)
    found = []
    for _ in range(2):
        found.append([random.random(), np.random.random(), float(keras.random.uniform(()))])
        draws.put_back(model)
    return found
