"""A module that works in place on the rows of its batch."""

BACKENDS = ("torch",)

import keras
import torch
from keras import layers

from tests.habits.data import regression

x, y = regression(rows=50)
module = keras.layers.TorchModuleWrapper(torch.nn.ELU(inplace=True))
model = keras.Sequential([keras.Input((6,)), module, layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
