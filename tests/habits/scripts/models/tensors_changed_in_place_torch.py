"""A tensor, an array and a tensor of a torch module that calls change in place, and read in the next call."""

EXPECTED = {"torch": "announced: keeps results of its rows in Python for its next call"}
BACKENDS = ("torch",)

import keras
import numpy as np
import torch

from tests.habits.data import regression


class Summing(keras.layers.Dense):
    def __init__(self, units, total):
        super().__init__(units, activation="tanh")
        self.total = total

    def call(self, inputs):
        self.total += float(inputs.detach().sum())
        return super().call(inputs) * (1 + 0.001 * float(self.total[0]))


class SummingModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.total = torch.nn.Linear(6, 8), torch.zeros(1)

    def forward(self, inputs):
        self.total += inputs.detach().sum()
        return torch.tanh(self.linear(inputs)) * (1 + 0.001 * self.total)


def wrapped():
    torch.manual_seed(1)
    return keras.layers.TorchModuleWrapper(SummingModule(), output_shape=(None, 8))


MAKE = {
    "tensor": lambda: Summing(8, torch.zeros(1)),
    "array": lambda: Summing(8, np.zeros(1, "float32")),
    "module": wrapped,
}
x, y = regression()
result = {}
for name, make in MAKE.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), make(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    result[name] = model.fit(x, y, epochs=2, batch_size=23, verbose=0)
