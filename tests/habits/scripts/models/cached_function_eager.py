"""A layer that calls a function under `functools.cache`, which notes what it read."""

EXPECTED = {"tensorflow": "announced: each replica changes it otherwise"}

import functools

import keras

from tests.habits.data import regression

reads = []


@functools.cache
def scale(name):
    reads.append(name)
    return 0.5


class Scaled(keras.layers.Layer):
    def call(self, x):
        return x * scale("x")


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Scaled(), keras.layers.Dense(1)])
scale.cache_clear()
reads.clear()
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "reads": len(reads)}
