"""Variables are copied once, since the training waits for that, and training does not change the copy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness.client import Workers

pytestmark = pytest.mark.in_turn


def test_variables_are_copied_once(workers: Workers) -> None:
    share, are_kept, are_arrays = workers.abreast.run(copied)
    assert 1.0 <= share < 1.5  # of their bytes; 2 with a copy of a copy, 3 on TensorFlow
    assert are_kept and are_arrays


def copied() -> tuple[float, bool, bool]:
    """In a worker: the memory that reading takes at most, over the bytes of what is read; whether training leaves that as it is."""
    import tracemalloc

    import keras

    import abreast
    from abreast.checkpoints import variables

    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(1024, dtype="float32")])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2)
    x = np.random.default_rng(0).normal(size=(8, 1024)).astype("float32")
    model.fit(x, x, verbose=0)
    tracemalloc.start()
    found = variables.read(model)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    before = {name: array.tobytes() for name, array in found.items()}
    model.fit(x, x, verbose=0)
    after = variables.read(model)
    changed = [name for name, array in after.items() if array.tobytes() != before[name]]
    are_kept = bool(changed) and all(array.tobytes() == before[name] for name, array in found.items())
    are_arrays = all(type(each) is np.ndarray and each.flags.c_contiguous for each in found.values())
    return most / sum(array.nbytes for array in found.values()), are_kept, are_arrays
