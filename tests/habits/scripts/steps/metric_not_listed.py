"""A step of one's own updates a metric that the `metrics` property of the model forgets."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.mae = keras.metrics.MeanAbsoluteError(name="mae")

    @property
    def metrics(self):
        return [self.loss_mean]

    def train_step(self, data):
        x, y = data
        self.loss_mean.update_state(self.descend(x, y, self.optimizer))
        self.mae.update_state(y, self(x))
        return {"loss": self.loss_mean.result(), "mae": self.mae.result()}


x, y = regression(rows=64)
y[:10] += 5
model = Own()
model.build((None, 6))
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "mae": model.mae.result(), "count": model.mae.count}
