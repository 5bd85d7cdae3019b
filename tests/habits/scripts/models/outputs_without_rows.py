"""A model whose outputs include a constant, a number of the batch and None, with losses and metrics of its own."""

import keras
from keras import ops

from tests.habits.data import regression


class Mixed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def build(self, shape):
        self.hidden.build(shape)
        self.out.build((None, 4))

    def call(self, inputs):
        rows = self.out(self.hidden(inputs)) * self.scale
        return {"attention": None, "norm": ops.mean(rows), "scale": self.scale * ops.ones((1,)), "y": rows}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        errors = ops.mean(ops.square(y - y_pred["y"]))
        return errors + 0.1 * ops.square(y_pred["norm"]) + 0.01 * ops.sum(ops.square(y_pred["scale"]))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return {"loss": self.metrics[0].result(), "norm": y_pred["norm"], "largest": ops.max(y_pred["y"])}


x, y = regression(rows=44)
model = Mixed()
model.build((None, 6))
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_split=0.2).history
result = {"model": model, "history": history}
