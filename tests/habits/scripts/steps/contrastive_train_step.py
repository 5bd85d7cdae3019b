"""Contrastive learning in `compute_loss`, over all pairs of the batch."""

import keras
from keras import ops

from tests.habits.data import regression


class SimCLR(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(4)])

    def call(self, inputs):
        return self.encoder(inputs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        one, other = ops.normalize(y_pred, axis=-1), ops.normalize(self.encoder(x * 0.9 + 0.1), axis=-1)
        similar = ops.matmul(one, ops.transpose(other)) / 0.3
        labels = ops.arange(ops.shape(similar)[0])
        return ops.mean(keras.losses.sparse_categorical_crossentropy(labels, similar, from_logits=True))


x, _ = regression(rows=40)
model = SimCLR()
model.compile("adam")
history = model.fit(x, x, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
