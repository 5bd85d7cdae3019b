"""A layer draws noise with a seed that is a number: the same noise at every step."""

EXPECTED = {"tensorflow": "announced: draws random numbers", "torch": "announced: draws random numbers"}

import keras
from keras import ops

from tests.habits.data import regression


class Noise(keras.layers.Layer):
    def call(self, x):
        return x + keras.random.normal(ops.shape(x), seed=42)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Noise(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
