"""A loss draws from PyTorch's global generator."""

EXPECTED = {"torch": "announced: draws random numbers in its step"}
BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


def noisy(y_true, y_pred):
    return (y_true - y_pred + 0.3 * torch.randn_like(y_pred)) ** 2


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", noisy)
history = model.fit(x, y, batch_size=12, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
