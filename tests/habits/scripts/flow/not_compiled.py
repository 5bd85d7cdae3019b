"""`fit` before `compile`: the `ValueError` is caught; `predict` works without."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
caught = False
try:
    model.fit(x, y, verbose=0)
except ValueError:
    caught = True
result = {"caught": caught, "predict": model.predict(x, verbose=0)}
