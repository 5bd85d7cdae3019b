"""`evaluate` inside `torch.inference_mode`, then outside it, and a training afterwards."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression

keras.utils.set_random_seed(1)
x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
first = model.fit(x, y, batch_size=23, verbose=0)
with torch.inference_mode():
    inside = model.evaluate(x, y, batch_size=23, verbose=0)
outside = model.evaluate(x, y, batch_size=23, verbose=0)
result = {"history": [first, model.fit(x, y, batch_size=23, verbose=0)], "evaluated": [inside, outside], "model": model}
