"""Layers that add a loss, or change a state, only for batches of several rows; a device may have one row of the last batch."""

import keras
from keras import ops

from tests.habits.data import regression


class Penalty(keras.layers.Layer):
    def call(self, x):
        if x.shape[0] > 1:
            self.add_loss(ops.mean(ops.square(x)))
        return x


class Average(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False, name="mean")

    def call(self, x, training=False):
        if training and x.shape[0] > 1:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(x))
        return x


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.out = keras.layers.Dense(4), keras.layers.Dense(1)
        self.penalty, self.average = Penalty(), Average()

    def call(self, x, training=False):
        return self.out(self.average(self.penalty(self.dense(x)), training=training))


x, y = regression(rows=27)
model = Net()
model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
result = {"model": model, "history": history}
