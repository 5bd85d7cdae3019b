"""A layer with a wide bank of earlier features, written as a ring."""

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
        self.bank = ops.zeros((64, 128))

    def call(self, x, training=False):
        out = x - ops.mean(self.bank, axis=0)[:6]
        if training:
            wide = ops.pad(ops.stop_gradient(x), [[0, 0], [0, 122]])
            self.bank = ops.concatenate([wide, self.bank[: 64 - int(x.shape[0])]], 0)
        return out


x, y = regression(rows=64)
model = keras.Sequential([Bank(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x + 1, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
