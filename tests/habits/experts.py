"""A mixture of experts that gives each expert the rows that choose it, and none to the others; it runs eagerly. Imports Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops


class Experts(layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Few rows choose few experts: the loss depends on other weights in each step."""

    def build(self, shape: Any) -> None:
        self.gates = self.add_weight((shape[-1], 5))
        self.kernels = [self.add_weight((shape[-1], 4)) for _ in range(5)]

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor((inputs.shape[0], 4))

    def call(self, inputs: Any) -> Any:
        gates = ops.softmax(ops.matmul(inputs, self.gates))
        chosen = ops.argmax(gates, axis=-1)
        outputs = ops.zeros((ops.shape(inputs)[0], 4))
        for index, kernel in enumerate(self.kernels):
            (rows,) = ops.nonzero(ops.equal(chosen, index))
            if len(rows):
                own = ops.take(gates[:, index, None], rows, axis=0) * ops.matmul(ops.take(inputs, rows, axis=0), kernel)
                outputs = ops.scatter_update(outputs, rows[:, None], own)
        return outputs


def model() -> Any:
    return keras.Sequential([keras.Input((6,)), Experts(), layers.Dense(1)])
