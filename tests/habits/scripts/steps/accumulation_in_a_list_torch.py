"""A `train_step` that adds up gradients in a list of its own, and sets the weights in every second step, the last one short."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: keeps results of the rows in Python"}

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Accumulating(Stepping):
    held = None

    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if self.held is None:
            self.held = [gradient.clone() for gradient in gradients]
        else:
            self.apply(self.optimizer, [one + other for one, other in zip(self.held, gradients, strict=True)])
            self.held = None
        return {"loss": loss}


x, y = regression(rows=63)
model = Accumulating()
model.body.build((None, 6))
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
