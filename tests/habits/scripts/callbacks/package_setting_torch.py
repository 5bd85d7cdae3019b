"""A callback changes a setting of a package that uses no framework, and a layer reads it."""

BACKENDS = ("torch",)
# The workers keep their own setting. After 64 steps, all devices compare what they compute from the same rows.
EXPECTED = {"torch": "announced: does not compute what the first device computes: Scaled has another result"}

import h5py
import keras
import numpy as np


class Scaled(keras.layers.Layer):
    def call(self, x):
        return x * (2.0 if h5py.get_config().track_order else 1.0)


class Switches(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        h5py.get_config().track_order = epoch >= 4


x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(8), Scaled(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=10, shuffle=False, callbacks=[Switches()], verbose=0)
h5py.get_config().track_order = False
result = {"model": model, "history": history}
