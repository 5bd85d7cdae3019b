"""A model's output has one row for each token, and its loss and its metric flatten the targets likewise."""

import keras
from keras import ops

from tests.habits.data import regression


class Tokens(keras.Model):
    def __init__(self):
        super().__init__()
        self.out = keras.layers.Dense(1)

    def call(self, x):
        return self.out(ops.reshape(x, (-1, 2)))


def flat_loss(y, y_pred):
    return ops.mean(ops.square(ops.reshape(y, (-1, 1)) - y_pred))


def largest(y, y_pred):
    return ops.max(ops.abs(ops.reshape(y, (-1, 1)) - y_pred))


x, _ = regression(rows=46)
y = x.reshape(46, 3, 2).sum(-1)
model = Tokens()
model.compile(keras.optimizers.SGD(0.1), flat_loss, metrics=[largest])
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, validation_data=(x[:13], y[:13]))
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, batch_size=16, verbose=0)}
