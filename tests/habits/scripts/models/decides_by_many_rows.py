"""A layer that decides by a number of rows that a device never has, and the batch does."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {
    "tensorflow": "announced: the rows of a batch are related to one another by Doubles",
    "torch": "announced: the rows of a batch are related to one another by Doubles",
}

import keras
from keras import ops

from tests.habits.data import regression


class Doubles(keras.layers.Layer):
    def call(self, x):
        return ops.cond(ops.shape(x)[0] > 12, lambda: x * 2.0, lambda: x * 1.0)


x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = keras.Sequential([inputs, keras.layers.Dense(8, "tanh"), Doubles(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history}
