"""Weight decay that leaves some weights out: an optimizer knows its weights by identity, and replicas have others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.harness.client import Workers
from tests.harness.differences import largest_difference


def train(devices: int) -> list[Any]:
    import keras

    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[model.layers[0].kernel], var_names=["bias"])
    model.compile(optimizer, "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices)
    x = np.random.default_rng(0).normal(size=(48, 6)).astype("float32")
    for _ in range(2):
        model.fit(x, x.sum(1, keepdims=True), batch_size=16, shuffle=False, verbose=0)
    weights: list[Any] = model.get_weights()
    return weights


def test_weights_without_weight_decay_have_none_on_any_device(workers: Workers) -> None:
    one, three = workers.plain.run(train, devices=0), workers.abreast.run(train, devices=3)
    assert largest_difference(one, three) < 1e-6  # measured 3e-8
