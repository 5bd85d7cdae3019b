"""Overflow of float16 in replicas' gradients, by which an optimizer with a loss scale skips a step.

One device computes the gradient of a weight from all rows in float16. The replicas' parts may be finite, and so may their sum in
float32. In a step of the user's own, on the other hand, a replica's loss is the mean over its rows alone: its gradient is larger
than its part, and overflows earlier. Imports no framework.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from abreast.exact.replica import current
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


def scaled_by_share(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`scale_loss` of an optimizer with a loss scale: in a user's own step, the gradient that flows back is the replica's part.

    The value of the loss stays the same. The replica remembers the optimizer, whose gradients are then added up.
    """

    @functools.wraps(plain)
    def scale_loss(self: Any, loss: Any) -> Any:
        running = current()
        if running is None or not running.own_step or not ops.is_tensor(loss):
            return plain(self, loss)

        def in_part(value: Any) -> Any:
            def gradient(*args: Any, upstream: Any = None) -> Any:
                (upstream,) = args if upstream is None else (upstream,)
                running.scaled_by_share.add(id(self))
                return upstream * running.weight_as(upstream.dtype)

            return ops.copy(value), gradient

        return plain(self, ops.custom_gradient(in_part)(loss))

    return scale_loss
