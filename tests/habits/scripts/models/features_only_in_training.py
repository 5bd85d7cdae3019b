"""A model that keeps its features in an attribute in training only; `__init__` does not set the attribute."""

import keras
from keras import layers

from tests.habits.data import regression


class Keeping(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = layers.Dense(8, activation="tanh")
        self.head = layers.Dense(1)

    def call(self, x, training=False):
        features = self.body(x)
        if training:
            self.features = features
        return self.head(features)


x, y = regression(rows=64)
model = Keeping()
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history, "scores": model.evaluate(x, y, verbose=0)}
