"""A layer keeps a running mean of its rows in a Python number."""

EXPECTED = {"torch": "announced: keeps results of its rows in Python"}
BACKENDS = ("torch",)

import keras
from keras import ops

from tests.habits.data import regression


class Center(keras.layers.Layer):
    mean = 0.0

    def call(self, x, training=None):
        out = x - self.mean
        if training:
            self.mean = 0.5 * self.mean + 0.5 * float(ops.mean(x))
        return out


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Center(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
