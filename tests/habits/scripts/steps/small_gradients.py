"""A step whose large loss hides a small one: a part of its own takes the correlation of its features out of the batch."""

EXPECTED = {"tensorflow": "announced: neither a mean nor a sum", "torch": "announced: neither a mean nor a sum"}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import layers, ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Step(Stepping):
    def __init__(self):
        super().__init__()
        self.part = layers.Dense(3)
        self.part.build((None, 6))

    def squares(self, x, y):
        apart = ops.square(ops.mean(ops.square(self.part(x)), axis=0) - 1)
        return 1e5 * super().squares(x, y) + ops.sum(apart)

    def train_step(self, data):
        x, y = data
        return {"loss": self.descend(x, y, self.optimizer)}


x, y = regression(rows=64)
model = Step()
model(x[:1])
model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3))
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
