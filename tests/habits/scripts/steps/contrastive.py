"""Contrastive learning: each row is to be like its own second view, and unlike all other rows of the batch."""

import keras
from keras import ops

from tests.habits.data import regression


class Contrastive(keras.losses.Loss):
    def call(self, y_true, y_pred):
        left, right = ops.split(y_pred, 2, axis=-1)
        similar = ops.matmul(ops.normalize(left, axis=-1), ops.transpose(ops.normalize(right, axis=-1))) / 0.5
        return ops.sparse_categorical_crossentropy(ops.arange(ops.shape(similar)[0]), similar, from_logits=True)


x, _ = regression(rows=40)
views = {"a": x, "b": x * 1.1 + 0.05}
a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
encoder = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(4)])
model = keras.Model({"a": a, "b": b}, keras.layers.Concatenate()([encoder(a), encoder(b)]))
model.compile("adam", Contrastive())
history = model.fit(views, x[:, :1], epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
