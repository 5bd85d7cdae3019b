"""Triplets: an embedding model inside a model whose `compute_loss` reads three outputs."""

# Distances leave out the last bias: its gradient is 0, and Adam makes steps of what rounding leaves.
WITHOUT = {
    "jax": ["result/network/weights/3 bias"],
    "tensorflow": ["result/network/weights/3 bias"],
    "torch": ["result/network/weights/3 bias"],
}

import keras
from keras import ops

from tests.habits.data import regression


class Siamese(keras.Model):
    def __init__(self, network, margin=0.5):
        super().__init__()
        self.network, self.margin = network, margin

    def call(self, inputs):
        anchor, positive, negative = (self.network(each) for each in inputs)
        near = ops.sum(ops.square(anchor - positive), -1)
        return ops.stack([near, ops.sum(ops.square(anchor - negative), -1)], axis=-1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.maximum(y_pred[:, 0] - y_pred[:, 1] + self.margin, 0.0))


x, _ = regression(rows=40)
network = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model = Siamese(network)
model.compile("adam")
history = model.fit((x, x + 0.1, x[::-1].copy()), x, epochs=2, batch_size=10, verbose=0)
result = {"network": network, "history": history}
