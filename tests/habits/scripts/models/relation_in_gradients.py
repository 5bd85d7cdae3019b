"""Layers that work row by row, but whose gradients do not: one adds and takes away the mean, one divides by the rows."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Centered(layers.Layer):
    def call(self, inputs):
        mean = ops.mean(inputs, axis=0, keepdims=True)
        return inputs + mean - ops.stop_gradient(mean)


class Slower(layers.Layer):
    def call(self, inputs):
        share = inputs / ops.cast(ops.shape(inputs)[0], inputs.dtype)
        return share + ops.stop_gradient(inputs - share)


x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), Centered(), Slower(), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
