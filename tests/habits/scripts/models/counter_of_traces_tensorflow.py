"""A layer that counts its calls, which in a graph are the traces of a step: plain Keras traces Adam's step twice."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: plain Keras traces this one twice"}

import keras

from tests.habits.data import regression


class Counting(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.calls = [0]

    def call(self, x):
        self.calls[0] += 1
        return x * self.calls[0]


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Counting(), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": model.layers[1].calls[0]}
