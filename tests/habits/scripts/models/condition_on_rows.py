"""A layer that takes one of two ways by the mean of its rows; the first rows do not show it, because all take the same way."""

import keras
from keras import ops

from tests.habits.data import regression

EXPECTED = {"tensorflow": "announced: has a condition", "torch": "announced: reads values"}


class OneOfTwo(keras.layers.Layer):
    def call(self, inputs):
        return ops.cond(ops.mean(inputs) > 0, lambda: inputs, lambda: 0.1 * inputs)


x, y = regression(rows=50)
x[:16] = abs(x[:16])
model = keras.Sequential([keras.Input((6,)), OneOfTwo(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
