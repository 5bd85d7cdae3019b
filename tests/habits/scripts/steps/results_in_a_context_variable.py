"""A layer that keeps the means of its rows in context variables, which the script reads after `fit`."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {
    "tensorflow": "announced: keeps results of the rows in Python",
    "torch": "announced: keeps results of the rows in Python",
}

import contextvars

import keras
from keras import ops

from tests.habits.data import regression

newest = contextvars.ContextVar("newest", default=0.0)
noted = contextvars.ContextVar("noted")
listed = contextvars.ContextVar("listed", default=[])


class Noting(keras.layers.Layer):
    def call(self, x, training=False):
        if training:
            mean = ops.stop_gradient(ops.mean(x))
            newest.set(mean)
            noted.get().append(mean)
            listed.get().append(mean)
        return x


x, y = regression(rows=64)
noted.set([])
listed.get().clear()
model = keras.Sequential([keras.Input((6,)), Noting(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
result = {
    "history": history,
    "model": model,
    "newest": float(newest.get()),
    "noted": [float(each) for each in noted.get()],
    "listed": len(listed.get()),
}
