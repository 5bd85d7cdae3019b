"""With `run_eagerly`, a layer has a condition on values of its rows (`ops.cond`) that the first rows do not meet."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: reads values of tensors in Python"}

import keras
from keras import layers, ops

from tests.habits.data import regression


class Damped(layers.Layer):
    def call(self, x):
        return ops.cond(ops.max(x) > 2.5, lambda: x / 2, lambda: x)


x, y = regression(rows=64)
x[:32], x[32:] = x[:32].clip(-2, 2), x[32:].clip(-3, 3)
model = keras.Sequential([keras.Input((6,)), Damped(), layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
