"""A layer that calls operations of PyTorch by their namespace."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


class Halving(keras.layers.Layer):
    def call(self, x):
        return torch.ops.aten.tanh(torch.ops.aten.mul(x, 0.5))


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), Halving(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
