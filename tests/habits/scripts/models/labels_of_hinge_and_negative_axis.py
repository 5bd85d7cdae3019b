"""Hinge losses with few labels that are not 0 or 1, and a loss along the axis of rows named from the end."""

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression(48)
labels = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (48, 1), p=[0.1, 0.45, 0.45]).astype("float32")
pairs = np.repeat(y, 2, 1) + x[:, :2]
result = {}
for name, loss, metric, target in (
    ("cosine", keras.losses.CosineSimilarity(axis=-2), keras.metrics.CosineSimilarity(axis=-2, name="c"), pairs),
    ("hinge", "hinge", "hinge", labels),
    ("squared_hinge", "squared_hinge", "squared_hinge", labels),
):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(target.shape[1])])
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=[metric])
    result[name] = model.fit(x, target, epochs=2, batch_size=16, shuffle=False, verbose=0), model
