"""A script freezes a layer in PyTorch's way, between two fits."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
for parameter in model.layers[0].parameters():
    parameter.requires_grad_(False)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
for parameter in model.layers[0].parameters():
    parameter.requires_grad_(True)
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
