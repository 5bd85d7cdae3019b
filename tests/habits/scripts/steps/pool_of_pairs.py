"""A step of one's own keeps pairs of earlier rows in a list, and trains on them again."""

EXPECTED = {"tensorflow": "announced: pool keeps results", "torch": "announced: pool keeps results"}
BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.pool = []

    def train_step(self, data):
        x, y = data
        old_x, old_y = self.pool[-1] if self.pool else (x, y)
        loss, gradients = self.gradients(lambda: self.squares(x, y) + 0.5 * self.squares(old_x, old_y))
        self.apply(self.optimizer, gradients)
        self.pool.append((x[:4], y[:4]))
        return {"loss": loss}


x, y = regression(rows=64)
model = Own()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
