"""A `train_step` that weights its first loss more, and flips a flag then: a graph of plain Keras weights each of them."""

BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class First(Stepping):
    def __init__(self):
        super().__init__()
        self.is_first = True

    def train_step(self, data):
        factor = 3.0 if self.is_first else 1.0
        self.is_first = False
        loss, gradients = self.gradients(lambda: factor * self.squares(*data))
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = First()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
