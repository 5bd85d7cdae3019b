"""A layer that keeps the last batch's features in an attribute, None at first, and centers by them."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {
    "tensorflow": "announced: Bank.bank keeps results of its rows in Python",
    "torch": "announced: Bank.bank keeps results of its rows in Python",
}

import keras
from keras import ops

from tests.habits.data import regression


class Bank(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.bank = None

    def call(self, x, training=False):
        out = x if self.bank is None else x - ops.mean(self.bank, axis=0)
        if training:
            self.bank = ops.stop_gradient(x)
        return out


x, y = regression(rows=64)
model = keras.Sequential([Bank(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x + 1, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
