"""TensorBoard with histograms."""

NEEDS = ("tensorboard", "tensorflow")

import glob

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
board = keras.callbacks.TensorBoard("logs", histogram_freq=1, update_freq="batch")
history = model.fit(x, y, epochs=2, batch_size=16, validation_split=0.2, callbacks=[board], verbose=0)
result = {"model": model, "history": history, "runs": sorted(glob.glob("logs/*"))}
