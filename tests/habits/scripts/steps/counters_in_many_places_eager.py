"""Counters of a model that runs eagerly, in a helper with slots, a long list, a large array, and under names that Keras uses."""

BACKENDS = ("tensorflow", "torch")

import types
from collections import OrderedDict

import keras
import numpy as np
from keras import layers

from tests.habits.data import regression


class Slots:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


class Helper:
    def __init__(self):
        self._losses = 0
        self.built = False
        self.slots = Slots()
        self.simple = types.SimpleNamespace()
        self.long = [0] * 2000
        self.nested = {"a": {"b": {"c": [0] * 200}}}
        self.array = np.zeros(20_000)
        self.recent = OrderedDict()

    def count(self):
        setattr(self, f"count_{1}", getattr(self, f"count_{1}", 0) + 1)
        self._losses += 1
        self.slots.count += 1
        self.simple.count = getattr(self.simple, "count", 0) + 1
        self.long[3] += 1
        self.nested["a"]["b"]["c"][5] += 1
        self.array[7] += 1
        self.recent[len(self.recent)] = 1
        first, self.built = 0.5 if self.built else 1.0, True
        counts = (self._losses, self.slots.count, self.simple.count, self.long[3], self.nested["a"]["b"]["c"][5])
        return first / (1 + sum(counts) + self.array[7] + len(self.recent) + self.count_1)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.helper = Helper()
        self._history = []

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x, training=False):
        if not training:
            return self.dense(x)
        self._history.append(1)
        return self.dense(x) * float(self.helper.count()) / len(self._history)


x, y = regression(rows=64)
model = Model()
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
counts = [model.helper._losses, model.helper.slots.count, model.helper.long[3], len(model._history)]
result = {"model": model, "history": history, "counts": counts}
