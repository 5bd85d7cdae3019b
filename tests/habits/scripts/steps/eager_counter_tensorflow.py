"""A `train_step` under `run_eagerly` that counts its calls in Python and anneals a part of the loss."""

BACKENDS = ("tensorflow",)

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Annealed(Stepping):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def train_step(self, data):
        x, y = data
        self.calls += 1
        weight = min(1.0, self.calls / 8)
        loss, gradients = self.gradients(lambda: self.squares(x, y) + weight * ops.mean(ops.square(self(x))))
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = Annealed()
model(x[:1])
model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": model.calls}
