"""An eager `train_step` that accumulates gradients over two batches in a list of tensors."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: kept: the step keeps a tensor there"}

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Accumulating(Stepping):
    def __init__(self):
        super().__init__()
        self.kept = []

    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if not self.kept:
            self.kept = gradients
        else:
            self.optimizer.apply(
                [(a + b) / 2 for a, b in zip(self.kept, gradients, strict=True)], self.trainable_weights
            )
            self.kept = []
        return {"loss": loss}


x, y = regression(rows=64)
model = Accumulating()
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
