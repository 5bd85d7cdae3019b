"""Arrays of different lengths: the `ValueError` is caught."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
caught = False
try:
    model.fit(x, y[:-3], verbose=0)
except ValueError:
    caught = True
result = {"caught": caught}
