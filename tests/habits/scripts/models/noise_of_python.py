"""A layer draws from Python's own generator in its `call`."""

EXPECTED = {"torch": "announced: draws random numbers"}
BACKENDS = ("torch",)

import random

import keras

from tests.habits.data import regression


class Noise(keras.layers.Layer):
    def call(self, x):
        return x * (1 + random.random())


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Noise(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
