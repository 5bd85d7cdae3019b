"""PyTorch's devices compare what they compute from the same rows: what abreast does not see in one process is announced."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.harness.client import Workers


@pytest.mark.parametrize(
    ("what", "said"),
    [("weight", "sequential/dense/kernel has other values"), ("state", "Scaled has another result"), ("nothing", "")],
)
def test_a_device_that_computes_otherwise_is_named(workers: Workers, what: str, said: str) -> None:
    if workers.backend != "torch":
        pytest.skip("the replicas of JAX and TensorFlow are in one process")
    warnings_given = workers.abreast.run(trained, what=what)
    assert [f"does not compute what the first device computes: {said}" in each for each in warnings_given] == (
        [True] if said else []
    ), warnings_given


def trained(what: str) -> list[str]:
    """In a worker: train, change what abreast does not see in this process, train on; the warnings."""
    import h5py  # type: ignore[import-untyped]
    import keras
    import numpy as np

    import abreast
    from abreast.backend.torch import memory

    class Scaled(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * (2.0 if h5py.get_config().track_order else 1.0)

    x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
    keras.utils.set_random_seed(1)
    keras.utils.clear_session()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), Scaled(), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    abreast.parallelize(model, devices=2)

    def train(epochs: int) -> None:
        model.fit(x, x[:, :1], batch_size=8, epochs=epochs, verbose=0)

    train(1)
    if what == "weight":
        memory.plain_storage(model.layers[0].kernel.value)[3] = (
            0x3F  # as by an old pointer, which no code requests anew
        )
    h5py.get_config().track_order = what == "state"
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            train(8)
    finally:
        h5py.get_config().track_order = False
    return [str(each.message) for each in found if "does not compute what" in str(each.message)]
