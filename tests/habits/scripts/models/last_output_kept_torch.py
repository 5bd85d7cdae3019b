"""A layer keeps what it last gave, and a mean of it, as attributes for later use: nobody reads them in a step."""

BACKENDS = ("torch",)

import keras
from keras import ops

from tests.habits.data import regression


class Keep(keras.layers.Layer):
    last, mean = None, 0.0

    def call(self, x):
        self.last = x
        self.mean = float(ops.mean(x))
        return x * 0.5


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Keep(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
