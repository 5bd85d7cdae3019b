"""With `run_eagerly`, layers count their calls in a list, a NumPy array, an outer variable and a default argument."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np

from tests.habits.data import regression


class Fading(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="fading")
        self.seen, self.numbers, self.shape = [], np.zeros(2), None

    def call(self, x):
        self.seen.append("call")
        self.numbers[0] += 1
        self.shape = x.shape  # the same in each call: counts nothing
        return x * (1.0 + 0.01 * len(self.seen) + 0.01 * self.numbers[0])


def scaling():
    calls = 0

    def scale(x, counts={}):
        nonlocal calls
        calls += 1
        counts["calls"] = counts.get("calls", 0) + 1
        return x * (1.0 + 0.01 * calls + 0.01 * counts["calls"])

    return scale


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Fading(), keras.layers.Lambda(scaling())])
model.add(keras.layers.Dense(1))
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "seen": len(model.layers[1].seen)}
