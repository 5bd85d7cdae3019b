"""Models without references are freed, here and in PyTorch's workers: k-fold loops and searches make hundreds."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.harness.client import Workers

_OBJECTS = 300  # a model that stays has 900 on PyTorch, 11,000 on TensorFlow, where plain Keras leaves 3,700


@pytest.mark.in_turn
def test_a_deleted_model_is_freed(workers: Workers) -> None:
    found = workers.abreast.run(train_and_delete, warm_up=2, models=3)
    assert found["alive"] == 0
    assert found["objects"] < 3 * _OBJECTS
    assert max([0, *found["mib"][1:]]) < 8, found["mib"]  # of PyTorch's workers; 13 to 25 where models stay


@pytest.mark.full
def test_memory_is_flat_over_fifty_models(workers: Workers) -> None:
    found = workers.abreast.run(train_and_delete, warm_up=10, models=50, timeout_seconds=290)
    assert found["alive"] == 0
    assert found["objects"] < 50 * _OBJECTS
    assert all(mib < 100 for mib in found["mib"])  # at least 200 where models stay


def train_and_delete(warm_up: int, models: int) -> dict[str, Any]:
    """In a worker: the number of models that stayed alive, and the growth of processes after the first models."""
    references = [train_one() for _ in range(warm_up)]
    objects, mib = num_objects(), resident_mib()
    references += [train_one() for _ in range(models)]
    grown = num_objects() - objects
    return {
        "alive": sum(reference() is not None for reference in references),
        "objects": grown,
        "mib": [after - before for before, after in zip(mib, resident_mib(), strict=True)],
    }


def train_one() -> weakref.ref[Any]:
    import keras
    import numpy as np

    import abreast

    layers = [keras.layers.Dense(1024), keras.layers.BatchNormalization()]  # large enough for PyTorch's buckets
    model = keras.Sequential([keras.Input((1024,)), *layers])
    model.compile("sgd", "mse", metrics=["mae"])
    abreast.parallelize(model, devices=4)
    rows = np.ones((16, 1024), "float32")
    model.fit(rows, rows, batch_size=8, verbose=0)
    model.predict(rows, verbose=0)
    reference = weakref.ref(model)
    del model, layers
    gc.collect()  # as with plain Keras, a model is in cycles
    return reference


def num_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def resident_mib() -> list[float]:
    import psutil

    this = psutil.Process()
    return [process.memory_info().rss / 2**20 for process in [this, *this.children(recursive=True)]]
