"""A layer that doubles its output for batches of at most three rows: a device may have so few of a longer batch."""

import keras
from keras import ops

from tests.habits.data import regression


class Scaled(keras.layers.Layer):
    def call(self, x):
        return x * ops.where(ops.cast(ops.shape(x)[0], "int32") <= 3, 2.0, 1.0)


x, y = regression(rows=20)
model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), Scaled(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
