"""A layer that finds a value by the `id` of an object."""

EXPECTED = {"torch": "announced: objects have other ids in the worker processes"}
BACKENDS = ("torch",)

import keras

from tests.habits.data import regression


class Scaled(keras.layers.Dense):
    def call(self, inputs):
        return factors.get(id(key), 1.0) * super().call(inputs)


class Key:
    pass


key = Key()
factors = {id(key): 0.5}
x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scaled(8, activation="tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=23, verbose=0)
result = {"model": model, "history": history}
