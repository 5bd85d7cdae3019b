"""A layer with a queue of earlier features (a deque), as in MoCo."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {
    "tensorflow": "announced: Bank.queue keeps results of its rows in Python",
    "torch": "announced: Bank.queue keeps results of its rows in Python",
}

import collections

import keras
from keras import ops

from tests.habits.data import regression


class Bank(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.queue = collections.deque(maxlen=2)

    def call(self, x, training=False):
        out = x
        for each in self.queue:
            out = out - 0.2 * ops.mean(each, axis=0)
        if training:
            self.queue.append(ops.stop_gradient(x))
        return out


x, y = regression(rows=64)
model = keras.Sequential([Bank(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x + 1, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
