"""A model keeps dicts whose keys have hashes of their own: one that Keras tracks, and a `Counter`."""

BACKENDS = ("torch",)

import collections
import dataclasses

import keras

from tests.habits.data import regression


@dataclasses.dataclass(frozen=True)
class Key:
    name: str


class Named(keras.layers.Layer):
    def __hash__(self):
        return id(self)

    def call(self, x):
        return x * counts[Key("a")]


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.named = keras.layers.Dense(1), Named(name="n")
        self.scales = {self.named: 2.0}

    def call(self, x):
        return self.named(self.dense(x)) * self.scales[self.named]


counts = collections.Counter({Key("a"): 2, Key("b"): 5})
x, y = regression()
model = Net()
model.compile(keras.optimizers.SGD(1e-3), "mse")
result = {"model": model, "history": model.fit(x, y, batch_size=8, epochs=2, verbose=0)}
