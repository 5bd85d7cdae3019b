"""A loss calls a function with `functools.lru_cache`, which the script clears between two fits."""

BACKENDS = ("torch",)

import functools

import keras
from keras import ops

from tests.habits.data import regression

settings = {"scale": 1.0}


@functools.lru_cache
def scale():
    return settings["scale"]


def loss(y, y_pred):
    return scale() * ops.mean(ops.square(y - y_pred), axis=-1)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", loss)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
settings["scale"] = 0.25
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
scale.cache_clear()
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
