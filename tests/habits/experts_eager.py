"""A mixture of experts of TensorFlow that gives each expert the rows that choose it; it runs eagerly. Imports Keras."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers


class Experts(layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Few rows choose few experts: the loss depends on other weights in each step."""

    def build(self, shape: Any) -> None:
        self.gates = self.add_weight((shape[-1], 5))
        self.kernels = [self.add_weight((shape[-1], 4)) for _ in range(5)]

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor((inputs.shape[0], 4))

    def call(self, inputs: Any) -> Any:
        gates = tf.nn.softmax(inputs @ self.gates.value)
        chosen = tf.argmax(gates, -1)
        outputs = tf.zeros((tf.shape(inputs)[0], 4))
        for index, kernel in enumerate(self.kernels):
            rows = tf.reshape(tf.where(chosen == index), (-1,))
            if len(rows):
                own = tf.gather(gates, rows)[:, index, None] * (tf.gather(inputs, rows) @ kernel.value)
                outputs = tf.tensor_scatter_nd_add(outputs, rows[:, None], own)
        return outputs


def model() -> Any:
    return keras.Sequential([keras.Input((6,)), Experts(), layers.Dense(1)])
