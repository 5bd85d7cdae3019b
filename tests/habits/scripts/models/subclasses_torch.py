"""A layer that counts the subclasses of a class."""

EXPECTED = {"torch": "announced: worker processes have only those subclasses that the model uses"}
BACKENDS = ("torch",)

import keras

from tests.habits.data import regression


class Scaled(keras.layers.Dense):
    def call(self, inputs):
        return 0.5 ** len(Part.__subclasses__()) * super().call(inputs)


class Part:
    pass


class Other(Part):
    pass


x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scaled(8, activation="tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=23, verbose=0)
result = {"model": model, "history": history}
