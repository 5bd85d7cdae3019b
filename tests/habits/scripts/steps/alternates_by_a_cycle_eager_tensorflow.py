"""An eager model that scales its output by the next value of `itertools.cycle`."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: scales: the step changes it in Python"}

import itertools

import keras
from keras import layers

from tests.habits.data import regression


class Alternating(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.scales = itertools.cycle([1.0, 0.5])

    def call(self, x):
        return self.dense(x) * next(self.scales)


x, y = regression(rows=64)
model = Alternating()
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
