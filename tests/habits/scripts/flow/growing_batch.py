"""The batch grows from fit to fit."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
losses = []
for size in (4, 9, 46, 100):
    losses += model.fit(x, y, batch_size=size, verbose=0).history["loss"]
result = {"model": model, "losses": losses}
