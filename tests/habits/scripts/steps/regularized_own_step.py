"""A `train_step` that adds `sum(self.losses)` of regularizers, and a loss of `add_loss`, to its own loss and returns both."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Penalized(keras.layers.Layer):
    def call(self, x):
        self.add_loss(0.1 * ops.mean(ops.square(x)))
        return x


class Regularized(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y) + sum(self.losses))
        penalty = sum(self.losses)
        self.apply(self.optimizer, gradients)
        return {"loss": loss, "penalty": penalty, "rows": ops.sum(ops.ones_like(y))}


x, y = regression(rows=62)
model = Regularized(keras.layers.Dense(6, "tanh", kernel_regularizer="l2", bias_regularizer="l1"), Penalized())
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
