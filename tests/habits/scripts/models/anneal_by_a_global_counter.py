"""A layer that counts its training calls in a global of Python, and an iterator that another layer reads (PyTorch)."""

BACKENDS = ("torch",)

import itertools

import keras

from tests.habits.data import regression

STEP = 0


class Anneal(keras.layers.Layer):
    def call(self, x, training=False):
        global STEP
        if training:
            STEP += 1
        return x * min(1.0, STEP / 10)


class Scale(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.steps = itertools.count(1)

    def call(self, x, training=False):
        return x * min(1.0, next(self.steps) / 10) if training else x


x, y = regression(rows=64)
model = keras.Sequential([Anneal(), Scale(), keras.layers.Dense(1)])
model.build((None, 6))
STEP, model.layers[1].steps = 0, itertools.count(1)
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "step": STEP, "next": next(model.layers[1].steps)}
