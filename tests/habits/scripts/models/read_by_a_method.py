"""A layer keeps results of its rows and a state, which the loss reads by a method, a property, a partial and a helper object."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, a loss cannot read a layer's variable

import functools

import keras
from keras import layers, ops

from tests.habits.data import regression


class Encoder(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)
        self._codes = None

    def build(self, shape):
        self.center = self.add_weight(shape=(6,), initializer="zeros", trainable=False)
        self.dense.build(shape)

    def call(self, inputs, training=None):
        if training:
            self.center.assign(0.5 * self.center + 0.5 * ops.mean(inputs, axis=0))
        self._codes = self.dense(inputs)
        return self._codes

    def spread(self):
        return ops.mean(ops.std(self._codes, axis=0))

    @property
    def shift(self):
        return ops.sum(ops.square(self.center))


class Helper:
    def __init__(self, encoder):
        self.encoder = encoder

    def __call__(self):
        return ops.mean(ops.square(ops.mean(self.encoder._codes, axis=0)))


def loss_of(y_true, y_pred, encoder, helper):
    return ops.mean(ops.square(y_true - y_pred)) * (1 + encoder.shift) + 0.1 * encoder.spread() + 0.1 * helper()


x, y = regression(rows=50)
encoder = Encoder()
loss = functools.partial(loss_of, encoder=encoder, helper=Helper(encoder))
loss.__name__ = "loss_of"
model = keras.Sequential([keras.Input((6,)), encoder, layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), loss)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
