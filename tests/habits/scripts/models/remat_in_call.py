"""Layers that `call` wraps by `keras.remat` each time, a function without layers that is wrapped once, and a `RematScope`."""

BACKENDS = ("jax",)  # on TensorFlow, plain Keras wraps no call with a `training` argument, and PyTorch has no remat

import keras
from keras import ops

from tests.habits.data import regression


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.hidden, self.frozen = keras.layers.Dense(6, "tanh"), keras.layers.Dense(6)
        self.frozen.trainable = False
        self.scaled = keras.remat(lambda x: ops.tanh(0.5 * x))
        self.fixed = keras.remat(self.frozen)

    def call(self, x):
        return self.scaled(keras.remat(lambda x: x + self.hidden(x))(x)) + self.fixed(x)


x, y = regression(rows=64)
with keras.RematScope(mode="full"):
    scoped = keras.layers.Dense(6, "tanh")
model = keras.Sequential([keras.Input((6,)), scoped, Block(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
