"""A loss reads a `ConfigParser`, a `UserDict`, an array that is resized and the environment; a script changes them."""

BACKENDS = ("torch",)

import collections
import configparser
import os

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression

parser = configparser.ConfigParser()
parser.read_string("[train]\nscale = 1")
table = collections.UserDict(scale=1.0)
array = np.ones(2, "float32")


def loss(y, y_pred):
    scale = parser.getfloat("train", "scale") * table["scale"] * float(array.sum())
    return float(os.environ.get("LOSS_SCALE", 1)) * scale * ops.mean(ops.square(y - y_pred), axis=-1)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.001), loss)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
parser["train"]["scale"] = "0.5"
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
table["scale"] = 3.0
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
array.resize(5, refcheck=False)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
os.environ["LOSS_SCALE"] = "2.5"
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
del os.environ["LOSS_SCALE"]
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
