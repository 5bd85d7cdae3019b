"""With `run_eagerly`, a step counts the kinds of its rows in a table of TensorFlow, and weights them by these."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: uses an iterator, a table or a queue of TensorFlow"}

import keras
import tensorflow as tf

from tests.habits.data import regression


class Counting(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=0.0)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        kinds = tf.cast(x[:, 0] > 0, tf.int64)
        self.table.insert(kinds, self.table.lookup(kinds) + 1.0)
        weights = 1.0 / (1.0 + self.table.lookup(kinds))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weights[:, None] * (self(x) - y) ** 2)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        return {"loss": loss}


x, y = regression(rows=64)
model = Counting()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history}
