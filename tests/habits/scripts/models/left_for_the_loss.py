"""A model whose call leaves its attention in an attribute, which its `compute_loss` relates over the rows."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Attends(keras.Model):
    def __init__(self):
        super().__init__()
        self.attention = layers.Dense(6, activation="softmax")
        self.end = layers.Dense(1)

    def call(self, inputs):
        self.last = self.attention(inputs)
        return self.end(inputs * self.last)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        return loss + 0.3 * ops.mean(ops.square(self.last)) + 0.3 * ops.sum(ops.square(ops.mean(self.last, axis=0)))


x, y = regression(rows=50)
model = Attends()
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False, validation_data=(x[:9], y[:9])).history
result = {"model": model, "histories": [history], "evaluated": model.evaluate(x, y, batch_size=9, verbose=0)}
