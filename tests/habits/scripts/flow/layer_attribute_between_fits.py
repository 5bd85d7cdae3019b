"""A plain attribute of a layer changes between two fits."""

import keras

from tests.habits.data import regression


class Scaled(keras.layers.Layer):
    factor = 1.0

    def call(self, inputs):
        return inputs * self.factor


x, y = regression()
layer = Scaled()
model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
model.compile("sgd", "mse")
first = model.fit(x, y, batch_size=16, verbose=0)
layer.factor = 0.1
model.compile("sgd", "mse")
second = model.fit(x, y, batch_size=16, verbose=0)
result = {"first": first, "second": second, "model": model}
