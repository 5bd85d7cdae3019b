"""An endless generator with `steps_per_epoch`, and one for validation."""

import keras
import numpy as np

from tests.habits.data import regression


def batches(seed):
    x, y = regression()
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(0, len(x), 8)
        yield x[rows], y[rows]


model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(batches(0), steps_per_epoch=5, epochs=3, validation_data=batches(1), validation_steps=2, verbose=0)
result = {"model": model, "history": history}
