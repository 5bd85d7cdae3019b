"""A running mean in a variable that is trainable, as `keras.Variable` makes it where nobody says otherwise."""

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression


class Center(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.mean = keras.Variable(np.zeros(6, "float32"))

    def call(self, x, training=False):
        if training:
            self.mean.assign(0.5 * self.mean + 0.5 * ops.mean(x, axis=0))
            return x
        return x - self.mean


x, y = regression(rows=47)
model = keras.Sequential([keras.Input((6,)), Center(), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, validation_split=0.2)
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, verbose=0)}
