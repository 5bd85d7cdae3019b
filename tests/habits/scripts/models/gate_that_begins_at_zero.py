"""A layer whose sum over rows counts nothing until its weight leaves zero: attention with a gate, behind a frozen scale."""

import keras
from keras import ops

from tests.habits.data import regression


class GatedAttention(keras.layers.Layer):
    def build(self, shape):
        self.gate = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs):
        among_rows = ops.softmax(ops.matmul(inputs, ops.transpose(inputs)))
        return inputs + self.gate * ops.matmul(among_rows, inputs)


class Scaled(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=shape[1:], initializer="zeros")

    def call(self, inputs):
        return inputs * (1.0 + self.scale * ops.mean(inputs, axis=0))


x, y = regression(rows=44)
scaled = Scaled()
layers = [keras.layers.Dense(4, "tanh"), GatedAttention(), scaled, keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((6,)), *layers])
histories = []
for scaled.trainable in (False, True):
    model.compile(keras.optimizers.SGD(0.1), "mse")
    histories.append(model.fit(x, y, batch_size=16, epochs=3, verbose=0, validation_split=0.2).history)
result = {"model": model, "histories": histories}
