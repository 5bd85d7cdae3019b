"""Added losses that are means over the flagged rows: as many flags in each half of the first rows, or all of them in one half."""

EXPECTED = {"tensorflow": "announced: a loss that it adds is", "torch": "announced: a loss that it adds is"}

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression


class Flagged(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 4), name="kernel")

    def call(self, inputs):
        outputs, flags = inputs @ self.kernel, inputs[:, :1]
        self.add_loss(ops.sum(ops.square(outputs) * flags) / (ops.sum(flags) + 1e-7))
        return outputs


def train(flags):
    keras.utils.set_random_seed(2)
    x[:, 0] = np.resize(flags, len(x))
    model = keras.Sequential([keras.Input((6,)), Flagged(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(x, y, batch_size=14, epochs=2, shuffle=False, verbose=0), model


x, y = regression(rows=46)
result = {"evenly": train([1, 0]), "late": train([0, 0, 0, 0, 1, 1, 1])}
