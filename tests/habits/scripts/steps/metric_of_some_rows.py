"""A step of one's own gives a metric of its own some rows of the batch, or several entries for each row."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Largest(keras.metrics.Metric):
    def __init__(self, name):
        super().__init__(name=name)
        self.largest = self.add_weight(shape=(), initializer="zeros", name="largest")

    def update_state(self, y, y_pred):
        self.largest.assign(ops.maximum(self.largest, ops.sum(ops.abs(y - y_pred))))

    def result(self):
        return self.largest


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.first, self.twice = Largest("first"), Largest("twice")

    def train_step(self, data):
        x, y = data
        self.descend(x, y, self.optimizer)
        y_pred = self(x)
        rows = ops.where(y[:, 0] > 0)[0]
        self.first.update_state(ops.take(y, rows, axis=0), ops.take(y_pred, rows, axis=0))
        self.twice.update_state(ops.concatenate([y, 2 * y]), ops.concatenate([y_pred, y_pred]))
        return {metric.name: metric.result() for metric in (self.first, self.twice)}


x, y = regression(rows=46)
model = Own()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
