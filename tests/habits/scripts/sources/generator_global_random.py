"""Generators for training and validation that draw from NumPy's global random state."""

# On TensorFlow, Keras reads generators ahead in threads of its own, so plain runs differ from one another.
BACKENDS = ("jax", "torch")

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression()


def batches():
    while True:
        rows = np.random.randint(0, len(x), 8)
        yield x[rows], y[rows]


np.random.seed(7)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(batches(), steps_per_epoch=5, epochs=2, validation_data=batches(), validation_steps=2, verbose=0)
result = {"model": model, "history": history}
