"""A mode of torch around `fit`, which sees or changes each of its operations."""

EXPECTED = {"torch": "announced: worker processes do not have the script's modes of torch"}
BACKENDS = ("torch",)

import keras
import torch
from torch.overrides import TorchFunctionMode

from tests.habits.data import regression


class Halved(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        return 0.5 * outputs if function is torch.tanh else outputs


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
with Halved():
    history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
