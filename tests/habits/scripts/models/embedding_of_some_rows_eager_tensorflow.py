"""An embedding with `run_eagerly` that looks up flagged rows only: in some steps, one device has none of them."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class Rare(layers.Layer):
    def __init__(self):
        super().__init__()
        self.table, self.dense = layers.Embedding(6, 4), layers.Dense(4)

    def build(self, shape):
        self.table.build((None, 3))
        self.dense.build((None, 4))

    def compute_output_spec(self, x):
        return keras.KerasTensor((x.shape[0], 4))

    def call(self, x):
        outputs = self.dense(x[:, :4])
        rows = tf.reshape(tf.where(x[:, 0] > 0), (-1,))
        if len(rows):
            words = tf.reduce_sum(self.table(tf.cast(tf.gather(x, rows)[:, 4:], tf.int32)), 1)
            outputs = tf.tensor_scatter_nd_add(outputs, rows[:, None], words * tf.gather(x, rows)[:, 1:2])
        return outputs


rng = np.random.default_rng(0)
x, y = rng.normal(size=(48, 7)).astype("float32"), rng.normal(size=(48, 1)).astype("float32")
x[:, 0], x[:, 4:] = np.tile([1, 1, -1, -1], 12), rng.integers(0, 3, size=(48, 3))
model = keras.Sequential([keras.Input((7,)), Rare(), layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
result = {"model": model, "history": history}
