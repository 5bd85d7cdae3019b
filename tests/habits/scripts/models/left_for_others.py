"""A layer that leaves its gate in an attribute: another layer centers it over the batch, and a metric counts it."""

import keras
from keras import layers, ops

from tests.habits.data import regression

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX cannot read it in a metric


class Gate(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(6, activation="softmax")

    def build(self, shape):
        self.dense.build(shape)

    def call(self, inputs):
        self.gate = self.dense(inputs)
        self.open = ops.mean(self.gate[:, 0])
        return inputs * self.gate


class Centered(layers.Layer):
    def __init__(self, other):
        super().__init__()
        self.other = [other]

    def call(self, inputs):
        return inputs - ops.mean(self.other[0].gate, axis=0, keepdims=True)


x, y = regression(rows=50)
gate = Gate()
model = keras.Sequential([keras.Input((6,)), gate, layers.Dense(6), Centered(gate), layers.Dense(1)])


def largest_gate(y_true, y_pred):
    return ops.max(gate.gate) + gate.open


model.compile(keras.optimizers.SGD(0.05), "mse", metrics=[largest_gate])
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False, validation_data=(x[:9], y[:9])).history
result = {"model": model, "histories": [history]}
