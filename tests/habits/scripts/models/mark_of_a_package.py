"""A layer whose option is a mark of a package, such as `dataclasses.MISSING`, which its code compares by `is`."""

import dataclasses

import keras
from keras import layers

from tests.habits.data import regression


class Scaled(keras.Model):
    def __init__(self, scale=dataclasses.MISSING):
        super().__init__()
        self.scale = scale
        self.dense = layers.Dense(1)

    def call(self, x):
        return self.dense(x) * (0.5 if self.scale is dataclasses.MISSING else self.scale)


x, y = regression(rows=64)
model = Scaled()
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
