"""A `train_step` that weights its rows by a constant tensor with as many rows as the batch."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, an own train_step must be stateless
EXPECTED = {
    "tensorflow": "refused: works on a batch of 16 rows and fails on the",
    "torch": "refused: works on a batch of 16 rows and fails on the",
}

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping

BATCH_SIZE = 16


class Weighted(Stepping):
    def squares(self, x, y):
        weights = ops.linspace(0.5, 1.5, BATCH_SIZE)
        return ops.mean(weights * ops.mean(ops.square(self(x, training=True) - y), axis=1))

    def train_step(self, data):
        return {"loss": self.descend(*data, self.optimizer)}


x, y = regression(rows=64)
model = Weighted()
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=2, verbose=0)
result = {"model": model, "history": history}
