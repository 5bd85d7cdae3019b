"""A k-fold loop that makes a model for each fold."""

NEEDS = ("sklearn",)

import keras
from sklearn.model_selection import KFold

from tests.habits.data import regression

x, y = regression()
scores = []
for train, test in KFold(3, shuffle=True, random_state=0).split(x):
    keras.utils.clear_session()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(x[train], y[train], epochs=2, batch_size=8, verbose=0)
    scores.append(model.evaluate(x[test], y[test], verbose=0))
result = {"scores": scores, "last": model}
