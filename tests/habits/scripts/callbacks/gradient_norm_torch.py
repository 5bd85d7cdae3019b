"""A callback logs the norm of the gradients after each batch, with Keras's step and with one's own."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        return {"loss": self.descend(x, y, self.optimizer)}


class Norms(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.norms = []

    def on_train_batch_end(self, batch, logs=None):
        squares = sum((weight.value.grad**2).sum() for weight in self.model.trainable_weights)
        self.norms.append(float(squares) ** 0.5)


x, y = regression(rows=64)
result = {}
for name, model in (("own", Own()), ("keras", keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)]))):
    model.build((None, 6))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    norms = Norms()
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=[norms])
    result[name] = norms.norms
