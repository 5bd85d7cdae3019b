"""A step that sums squares over the rows, of a model that relates the rows itself by centering them."""

EXPECTED = {"tensorflow": "announced: gradient is a sum over rows", "torch": "announced: gradient is a sum over rows"}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import layers, ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Center(layers.Layer):
    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True)


class Step(Stepping):
    def squares(self, x, y):
        return ops.sum(ops.square(self(x, training=True) - y))

    def train_step(self, data):
        x, y = data
        return {"loss": self.descend(x, y, self.optimizer)}


x, y = regression(rows=64)
model = Step(Center())
model(x[:1])
model.compile(keras.optimizers.SGD(0.001))
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
