"""Overflow of float16 in sums of replicas' gradients, by which an optimizer with a loss scale skips a step.

One device computes the gradient of a weight from all rows in float16. The replicas' parts may be finite, and so may their sum in
float32. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from abreast.keras_private.optimizers import LossScaleOptimizer

_OVERFLOWS = 65520.0  # float16 rounds this, and what is larger, to infinity


def overflowing_as_half(model: Any, optimizer: Any, sums: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
    """The sums of gradients, infinite where one device's in float16 are; unchanged for optimizers without a loss scale."""
    if not isinstance(optimizer, LossScaleOptimizer):
        return list(sums)
    in_half = {
        id(variable)
        for layer in model._flatten_layers()
        if getattr(layer, "compute_dtype", None) == "float16"
        for variable in layer._trainable_variables
    }
    return [_as_half(total) if id(weight) in in_half else total for total, weight in zip(sums, weights, strict=True)]


def _as_half(total: Any) -> Any:
    if not ops.is_tensor(total) or not hasattr(total, "dtype") or type(total).__name__ == "IndexedSlices":
        return total
    return ops.where(ops.abs(total) >= _OVERFLOWS, total * float("inf"), total)
