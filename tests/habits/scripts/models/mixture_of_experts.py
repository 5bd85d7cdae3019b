"""A mixture of experts with a loss that balances them over the batch by its mean."""

EXPECTED = {"tensorflow": "announced: rows", "torch": "announced: rows"}

import keras
from keras import layers, ops

from tests.habits.data import regression


class Experts(layers.Layer):
    def __init__(self, count):
        super().__init__()
        self.gate, self.experts = layers.Dense(count, "softmax"), [layers.Dense(4, "relu") for _ in range(count)]

    def call(self, inputs):
        gates = self.gate(inputs)
        self.add_loss(ops.sum(ops.square(ops.mean(gates, axis=0))))
        return sum(gates[:, i, None] * expert(inputs) for i, expert in enumerate(self.experts))


x, y = regression()
inputs = keras.Input((6,))
model = keras.Model(inputs, layers.Dense(1)(Experts(3)(inputs)))
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
