"""A torch module whose weights are parametrized, with `weight_norm` and `spectral_norm`."""

import keras
import torch
from torch.nn.utils import parametrizations

from tests.habits.data import regression

BACKENDS = ("torch",)

x, y = regression(rows=50)
torch.manual_seed(1)
normed = torch.nn.Sequential(
    parametrizations.weight_norm(torch.nn.Linear(6, 5)),
    torch.nn.Tanh(),
    parametrizations.spectral_norm(torch.nn.Linear(5, 4)),
)
model = keras.Sequential([keras.Input((6,)), keras.layers.TorchModuleWrapper(normed), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
histories = [model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_split=0.2).history for _ in range(2)]
result = {"model": model, "histories": histories}
