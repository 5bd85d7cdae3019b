"""A step that returns a mean over the rows, and after some steps a sum."""

BACKENDS = ("torch",)
# The logs of epochs 4 to 8 have steps in which the sum counted as a mean.
EXPECTED = {"torch": "announced: after 64 steps, the rows of a batch are related to one another by the step"}

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Counting(Stepping):
    steps = 0

    def train_step(self, data):
        x, y = data
        self.steps += 1
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.apply(self.optimizer, gradients)
        return {"loss": loss, "size": ops.sum(x**2) if self.steps > 20 else ops.mean(x**2)}


x, y = regression(rows=64)
model = Counting()
model(x[:1])
model.compile(keras.optimizers.SGD(0.01))
history = model.fit(x, y, batch_size=8, epochs=9, shuffle=False, verbose=0)
result = {"model": model, "history": history}
