"""A layer that relates rows, whose first batches have equal rows: zeros as a warm-up, then one row repeated."""

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression

EXPECTED = {"tensorflow": "announced: related to one another", "torch": "announced: related to one another"}


class Centered(keras.layers.Layer):
    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True)


x, y = regression(rows=50)
x[:16] = x[0]
model = keras.Sequential([keras.Input((6,)), Centered(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
warm_up = model.fit(np.zeros_like(x), y, batch_size=16, verbose=0).history
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [warm_up, history]}
