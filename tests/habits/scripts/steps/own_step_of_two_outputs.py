"""A step of one's own that calls `compute_loss` of a model with two outputs, whose losses are listed one by one."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.heads = {"a": keras.layers.Dense(1), "b": keras.layers.Dense(1)}

    def call(self, x, training=False):
        features = self.body(x, training=training)
        return {name: head(features) for name, head in self.heads.items()}

    def _loss(self, x, y):
        return self.compute_loss(x, y, self(x, training=True))

    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self._loss(x, y))
        self.apply(self.optimizer, gradients)
        self._loss_tracker.update_state(loss)
        return {metric.name: metric.result() for metric in self.metrics}


x, y = regression(rows=48)
model = Own()
model.compile("sgd", {"a": "mse", "b": "mae"})
history = model.fit(x, {"a": y, "b": -y}, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
