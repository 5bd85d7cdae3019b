"""A model is pickled and copied after a fit."""

import copy
import pickle

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=10, verbose=0)
back = pickle.loads(pickle.dumps(model))
back.fit(x, y, batch_size=10, shuffle=False, verbose=0)
twin = copy.deepcopy(model)
result = {"back": back, "twin": twin.predict(x, verbose=0)}
