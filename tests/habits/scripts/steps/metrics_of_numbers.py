"""A step of one's own gives metrics numbers: counts, sums, constants, whole numbers."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.rows = keras.metrics.Sum(name="rows")
        self.total = keras.metrics.Sum(name="total")
        self.mean_total = keras.metrics.Mean(name="mean_total")
        self.hits = keras.metrics.Mean(name="hits")
        self.steps = keras.metrics.Sum(name="steps")
        self.mean = keras.metrics.Mean(name="mean")

    def train_step(self, data):
        x, y = data
        self.descend(x, y, self.optimizer)
        y_pred = self(x)
        self.rows.update_state(ops.shape(x)[0])
        self.total.update_state(ops.sum(ops.abs(y_pred - y)))
        self.mean_total.update_state(ops.sum(ops.abs(y_pred - y)))
        self.hits.update_state(ops.sum(ops.cast(y_pred * y > 0, "int32")))
        self.steps.update_state(1.0)
        self.mean.update_state(values=ops.mean(ops.abs(y_pred - y)))
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y = data
        y_pred = self(x)
        self.mean.update_state(ops.sum(ops.abs(y_pred - y)))
        self.total.update_state(ops.mean(ops.abs(y_pred - y)))
        return {"mean": self.mean.result(), "total": self.total.result()}


x, y = regression(rows=48)
model = Own()
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
result["evaluate"] = model.evaluate(x, y, batch_size=16, verbose=0)
