"""A layer keeps a running mean of its inputs in a weight of its own."""

import keras
from keras import ops

from tests.habits.data import regression


class RunningMean(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs


x, y = regression()
model = keras.Sequential([keras.Input((6,)), RunningMean(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
