"""A layer reads a number that workers of the data share: a worker of training cannot get it. The refusal names the global."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "refused: cannot send the global knob that Scaled.call reads"}

import multiprocessing

import keras

from tests.habits.data import regression

knob = multiprocessing.Value("d", 2.0)


class Scaled(keras.layers.Layer):
    def call(self, x):
        return x * knob.value


x, y = regression()
model = keras.Sequential([keras.Input(x.shape[1:]), Scaled(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
result = {"model": model, "history": model.fit(x, y, batch_size=8, verbose=0)}
