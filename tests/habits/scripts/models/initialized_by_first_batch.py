"""A layer initializes its weights from the first batch, and a Python flag says that it has (ActNorm)."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression


class ActNorm(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.is_initialized = False

    def build(self, input_shape):
        self.shift = self.add_weight(shape=(input_shape[-1],), initializer="zeros")
        self.scale = self.add_weight(shape=(input_shape[-1],), initializer="ones")

    def call(self, x, training=False):
        if training and not self.is_initialized:
            self.is_initialized = True
            std, mean = ops.std(x, axis=0) + 1e-3, ops.mean(x, axis=0)
            self.scale.assign(ops.stop_gradient(1 / std))
            self.shift.assign(ops.stop_gradient(-mean / std))
        return x * self.scale + self.shift


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), ActNorm(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(3 * x + 1, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
