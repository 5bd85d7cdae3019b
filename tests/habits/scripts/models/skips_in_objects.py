"""Skip connections over a BatchNormalization, kept in objects with slots, without attributes, and new in each call."""

import types

import keras
from keras import layers

from tests.habits.data import regression


class Slots:
    __slots__ = ("skip",)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.slots, self.simple, self.context = Slots(), types.SimpleNamespace(), None
        self.first, self.norm, self.head = layers.Dense(6), layers.BatchNormalization(), layers.Dense(1)

    def call(self, x, training=False):
        x = self.first(x)
        self.context = types.SimpleNamespace(skip=x)
        self.slots.skip, self.simple.skip, self.head.skip = x, 2.0 * x, 3.0 * x
        x = self.norm(x, training=training)
        x = x + self.context.skip + self.slots.skip + self.simple.skip + self.head.skip
        self.context = None
        return self.head(x)


x, y = regression(rows=64)
model = Model()
model.compile(keras.optimizers.SGD(0.005), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)
result = {"model": model, "history": history}
