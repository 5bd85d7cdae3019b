"""A loss that becomes infinite, and a model that is thrown away for a new one."""

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression()
losses = []
for rate in (1e20, 0.01):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")
    losses.append(model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0).history["loss"][-1])
result = {"finite": [bool(np.isfinite(loss)) for loss in losses], "model": model}
