"""With `run_eagerly`, one embedding for words and for positions, others for constants of each row, and one for each word once."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf
from keras import layers, ops

from tests.habits.data import tokens


class Shared(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.first = layers.Embedding(20, 6), layers.Embedding(2, 6)

    def call(self, ids):
        rows, length = ids.shape
        places = self.words(ops.arange(length))
        return self.words(ids) + places + self.words(ids + 1) * places + self.first(ops.zeros((rows or 1, 1), "int32"))


class Once(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(21, 6), initializer="glorot_uniform", name="table")

    def call(self, ids):
        words, places = tf.unique(tf.reshape(ids, [-1]))
        found = tf.gather(ops.take(self.table, words, axis=0), places)
        return tf.reshape(found, [-1, ids.shape[1], 6]) + ops.take(self.table, ids, axis=0)

    def compute_output_shape(self, shape):
        return (*shape, 6)


x, y = tokens(rows=46, length=7)
x = x % 19
inputs = keras.Input((7,), dtype="int32")
hidden = layers.GlobalAveragePooling1D()(Shared()(inputs) + Once()(inputs))
model = keras.Model(inputs, layers.Dense(1)(hidden))
model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
