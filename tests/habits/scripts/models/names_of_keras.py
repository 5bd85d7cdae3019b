"""A helper whose attributes have names that Keras gives attributes of its own, such as `_value` of a variable."""

import keras
from keras import layers

from tests.habits.data import regression


class Annealed:
    def __init__(self, value):
        self._value = value
        self._variables = []
        self.count = 0

    def get(self):
        return self._value / (1 + len(self._variables) + self.count)


class Scaled(keras.Model):
    def __init__(self):
        super().__init__()
        self.scale = Annealed(1.5)
        self.dense = layers.Dense(8, activation="tanh")
        self.head = layers.Dense(1)

    def call(self, x):
        return self.head(self.dense(x)) * self.scale.get()


x, y = regression(rows=64)
model = Scaled()
model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae"])
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)
result = {"model": model, "history": history, "steps": int(model.optimizer.iterations)}
