"""A mixture of experts of PyTorch that gives each expert the rows that choose it, and none to the others. Imports Keras."""

from __future__ import annotations

from typing import Any

import keras
import torch
from keras import layers


class Experts(layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Few rows choose few experts: the loss depends on other weights in each step."""

    def build(self, shape: Any) -> None:
        self.gates = self.add_weight((shape[-1], 5))
        self.kernels = [self.add_weight((shape[-1], 4)) for _ in range(5)]

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor((inputs.shape[0], 4))

    def call(self, inputs: Any) -> Any:
        gates = torch.softmax(inputs @ self.gates.value, -1)
        chosen = gates.argmax(-1)
        outputs = inputs.new_zeros((inputs.shape[0], 4))
        for index, kernel in enumerate(self.kernels):
            rows = torch.nonzero(chosen == index).flatten()
            if len(rows):
                outputs = outputs.index_add(0, rows, gates[rows, index, None] * (inputs[rows] @ kernel.value))
        return outputs


def model() -> Any:
    return keras.Sequential([keras.Input((6,)), Experts(), layers.Dense(1)])
