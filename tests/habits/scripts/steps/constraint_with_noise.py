"""A constraint draws from NumPy's global generator."""

EXPECTED = {
    "tensorflow": "announced: their weights drift apart",
    "torch": "announced: their weights drift apart",
}
BACKENDS = ("tensorflow", "torch")

import keras
import numpy as np

from tests.habits.data import regression


class Shaken(keras.constraints.Constraint):
    def __call__(self, weight):
        return weight + 0.1 * np.random.normal()


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, kernel_constraint=Shaken())])
model.compile("sgd", "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=12, epochs=1, verbose=0, shuffle=False)
result = {"model": model, "history": history}
