"""A hook that PyTorch calls for every module, as tools that count operations set it."""

EXPECTED = {"torch": "announced: hooks for all torch modules"}
BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression

calls = []
x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
hook = torch.nn.modules.module.register_module_forward_hook(lambda *arguments: calls.append(1))
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
hook.remove()
result = {"model": model, "history": history}
