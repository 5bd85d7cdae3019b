"""A `train_step` that adds up gradients in variables, and sets the weights itself in every second step only."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Accumulating(Stepping):
    def __init__(self):
        super().__init__()
        self.body.build((None, 6))
        self.turn = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.sums = [
            self.add_weight(shape=w.shape, initializer="zeros", trainable=False) for w in self.trainable_weights
        ]

    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.turn.assign(1 - self.turn)
        for weight, total, gradient in zip(self.trainable_weights, self.sums, gradients, strict=True):
            total.assign(self.turn * total + gradient)
            weight.assign(weight - 0.05 * (1 - self.turn) * total)
        return {"loss": loss}


x, y = regression(rows=62)
model = Accumulating()
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
