"""Layers that sort along the features, with a last batch whose rows do not divide among the devices."""

import keras
from keras import ops

from tests.habits.data import regression


class Sorted(keras.layers.Layer):
    def call(self, inputs):
        median = ops.median(inputs, axis=-1, keepdims=True)
        return ops.concatenate([ops.sort(inputs, axis=-1), inputs - median], axis=-1)


x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), Sorted(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_split=0.2).history
result = {"model": model, "histories": [history]}
