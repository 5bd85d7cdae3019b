"""Weights go from one model into another, layer by layer."""

import keras

from tests.habits.data import regression

x, y = regression()


def make(width):
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu", name="body"), keras.layers.Dense(width)])


model = make(1)
model.compile("adam", "mse")
model.fit(x, y, batch_size=10, verbose=0)
model.save_weights("a.weights.h5")
other = make(2)
other.get_layer("body").set_weights(model.get_layer("body").get_weights())
other.compile("adam", "mse")
other.fit(x, x[:, :2], batch_size=10, verbose=0)
again = make(1)
again.load_weights("a.weights.h5")
result = {"other": other, "again": again.predict(x, verbose=0)}
