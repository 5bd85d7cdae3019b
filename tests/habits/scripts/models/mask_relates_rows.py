"""A layer whose mask depends on all rows: the steps of a sequence that are larger than the mean of the batch."""

EXPECTED = {"tensorflow": "announced: computes a mask", "torch": "announced: computes a mask"}

import keras
from keras import layers, ops

from tests.habits.data import regression


class LargeSteps(layers.Layer):
    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs):
        return inputs

    def compute_mask(self, inputs, mask=None):
        sizes = ops.sum(ops.abs(inputs), axis=-1)
        return sizes >= ops.mean(sizes)


x, y = regression(rows=100)
x = x.reshape(100, 6, 1)
model = keras.Sequential([keras.Input((6, 1)), layers.Dense(4), LargeSteps(), layers.Dense(2)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, x * y[:, :, None], batch_size=32, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
