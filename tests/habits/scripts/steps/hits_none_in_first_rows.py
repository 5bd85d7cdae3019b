"""A step of one's own counts hits, of which the first batch has none."""

EXPECTED = {
    "tensorflow": "announced: gives hits a value that is 0",
    "torch": "announced: gives hits a value that is 0",
}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.hits = keras.metrics.Sum(name="hits")

    def train_step(self, data):
        x, y = data
        self.descend(x, y, self.optimizer)
        self.hits.update_state(ops.sum(ops.cast(ops.abs(self(x) - y) < 1, "float32")))
        return {"hits": self.hits.result()}


x, y = regression(rows=64)
y[:16] += 30
model = Own()
model.compile(keras.optimizers.SGD(0.001))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
