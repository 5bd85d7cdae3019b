"""A layer that centers rows beside a column of time stamps, and one that puts -1e9 in the place of some numbers."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Centered(layers.Layer):
    def call(self, inputs):
        stamps = 1.7e9 + inputs[:, :1]
        return ops.concatenate([stamps, inputs - ops.mean(inputs, axis=0)], axis=-1)


class Chosen(layers.Layer):
    def call(self, inputs):
        features = inputs[:, 1:]
        return ops.where(features > -0.2, 3 * (features - ops.mean(features, axis=0)), -1e9)


x, y = regression(rows=50)
body = [layers.Dense(4), Centered(), Chosen(), layers.Softmax(), layers.Dense(1)]
model = keras.Sequential([keras.Input((6,)), *body])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
