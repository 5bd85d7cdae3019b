"""A step whose loss is a mean over the rows, of a model in which three layers relate the rows, one of them with weights."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import layers, ops

from tests.habits.data import classification
from tests.habits.stepping import Stepping


class Center(layers.Layer):
    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True)


class Attend(layers.Layer):
    def __init__(self):
        super().__init__()
        self.query, self.value = layers.Dense(4), layers.Dense(6, "tanh")

    def call(self, inputs):
        weights = ops.softmax(ops.matmul(self.query(inputs), ops.transpose(self.query(inputs))))
        return inputs + ops.matmul(weights, self.value(inputs))


class Deviation(layers.Layer):
    def call(self, inputs):
        spread = ops.mean(ops.std(inputs, axis=0)) * ops.ones_like(inputs[:, :1])
        return ops.concatenate([inputs, spread], axis=-1)


class Step(Stepping):
    def __init__(self):
        super().__init__(Center(), Attend(), Deviation())
        self.classes = layers.Dense(3, "softmax")

    def call(self, x, training=False):
        return self.classes(super().call(x, training=training))

    def squares(self, x, y):
        losses = keras.losses.sparse_categorical_crossentropy(y, self(x, training=True))
        return ops.mean(losses) + 0.01 * ops.mean(ops.square(self.body(x)))

    def train_step(self, data):
        x, y = data
        return {"loss": self.descend(x, y, self.optimizer)}


x, y = classification(rows=64)
model = Step()
model(x[:1])
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
