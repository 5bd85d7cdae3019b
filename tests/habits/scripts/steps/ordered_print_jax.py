"""A layer that prints with `jax.debug.print(..., ordered=True)`, which JAX supports on one device only."""

BACKENDS = ("jax",)
EXPECTED = {"jax": "refused: ordered effect"}

import jax
import keras

from tests.habits.data import regression


class Shown(keras.layers.Layer):
    def call(self, inputs):
        jax.debug.print("mean {}", inputs.mean(), ordered=True)
        return inputs

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), Shown(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
result = model.fit(x, y, batch_size=14, epochs=1, verbose=0)
