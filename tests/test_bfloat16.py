"""Rows of bfloat16, which NumPy and PyTorch do not share: they train on several devices as on one."""

from __future__ import annotations

import pytest

from tests.harness.client import Workers
from tests.harness.differences import largest_difference


@pytest.mark.in_turn
def test_a_generator_of_bfloat16_rows_trains_as_plain_keras_does(workers: Workers) -> None:
    plain = workers.plain.run(losses_of_bfloat16_rows, devices=0)
    placed = workers.abreast.run(losses_of_bfloat16_rows, devices=4)
    assert largest_difference(plain, placed) < 2e-2  # bfloat16 has 8 bits


def losses_of_bfloat16_rows(devices: int) -> list[float]:
    import keras
    import ml_dtypes
    import numpy as np

    rows = np.linspace(-1, 1, 40).reshape(10, 4).astype(ml_dtypes.bfloat16)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, dtype="bfloat16", kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    if devices:
        import abreast

        abreast.parallelize(model, devices)
    batches = ((rows[start : start + 5], rows[start : start + 5, :1]) for _ in range(2) for start in (0, 5))
    losses: list[float] = model.fit(batches, epochs=2, steps_per_epoch=2, shuffle=False, verbose=0).history["loss"]
    return losses
