"""A layer's running mean, which another layer, the loss, a regularizer and a metric read in the step that changes it."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, a metric cannot read a layer's variable

import keras
from keras import layers, ops

from tests.habits.data import regression


class Running(layers.Layer):
    def build(self, shape):
        self.center = self.add_weight(shape=(6,), initializer="zeros", trainable=False)

    def call(self, inputs, training=None):
        if training:
            self.center.assign(0.5 * self.center + 0.5 * ops.mean(inputs, axis=0))
        return inputs * 1.0


class Scaled(layers.Layer):
    def __init__(self, other):
        super().__init__()
        self.other = [other]

    def call(self, inputs):
        return inputs * (1 + ops.sum(ops.square(self.other[0].center)))


running = Running()


def loss(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred)) * (1 + ops.sum(ops.square(running.center)))


def center(y_true, y_pred):
    return ops.sum(ops.square(running.center))


def regularizer(weights):
    return 0.1 * ops.sum(ops.square(weights)) * ops.sum(ops.square(running.center))


x, y = regression(rows=50)
end = layers.Dense(1, kernel_regularizer=regularizer)
model = keras.Sequential([keras.Input((6,)), running, Scaled(running), end])
model.compile(keras.optimizers.SGD(0.02), loss, metrics=[center])
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
