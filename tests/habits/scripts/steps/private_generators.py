"""A step of one's own draws the weights of MixUp from generators that the model holds, of NumPy and of Python."""

EXPECTED = {"tensorflow": "announced: draws random numbers", "torch": "announced: draws random numbers"}
BACKENDS = ("tensorflow", "torch")

import random

import keras
import numpy as np

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.numpy, self.python = np.random.default_rng(5), random.Random(5)

    def train_step(self, data):
        x, y = data
        share = 0.5 * (self.numpy.uniform() + self.python.random())
        loss, gradients = self.gradients(lambda: share * self.squares(x, y) + (1 - share) * self.squares(x, -y))
        self.apply(self.optimizer, gradients)
        return {"loss": loss, "share": share}


x, y = regression(rows=64)
model = Own()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
