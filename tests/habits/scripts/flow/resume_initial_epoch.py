"""Training goes on with `initial_epoch`, and histories are joined."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
first = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
second = model.fit(x, y, epochs=4, initial_epoch=2, batch_size=16, verbose=0)
result = {"loss": first.history["loss"] + second.history["loss"], "epochs": second.epoch, "model": model}
