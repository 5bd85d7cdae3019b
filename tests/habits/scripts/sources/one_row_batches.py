"""Batches of one row, as of a first try."""

import keras

from tests.habits.data import regression

x, y = regression(rows=9)
model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=1, verbose=0)
result = {"model": model, "history": history}
