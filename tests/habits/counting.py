"""A model whose step counts the kinds of its rows in a table of TensorFlow. Imports TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.habits.data import regression


class Counting(keras.Model):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=0.0)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
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


def train(run_eagerly: bool) -> dict[str, Any]:
    x, y = regression(rows=64)
    model = Counting()
    model(x[:1])
    model.compile(keras.optimizers.SGD(0.05), run_eagerly=run_eagerly)
    history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    return {"model": model, "history": history}
