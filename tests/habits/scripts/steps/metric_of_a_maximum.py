"""A step of one's own gives a metric the largest number of a batch."""

EXPECTED = {"tensorflow": "announced: which gives largest", "torch": "announced: which gives largest"}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.largest = keras.metrics.Mean(name="largest")

    def train_step(self, data):
        x, y = data
        self.descend(x, y, self.optimizer)
        self.largest.update_state(ops.max(ops.abs(self(x) - y)))
        return {metric.name: metric.result() for metric in self.metrics}


x, y = regression(rows=48)
model = Own()
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
