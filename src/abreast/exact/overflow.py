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
    if not isinstance(optimizer, LossScaleOptimizer) and optimizer.loss_scale_factor is None:
        return list(sums)
    in_half = {
        id(variable)
        for layer in model._flatten_layers()
        if getattr(layer, "compute_dtype", None) == "float16"
        for variable in layer._trainable_variables
    }
    return [as_half(total) if id(weight) in in_half else total for total, weight in zip(sums, weights, strict=True)]


def as_half(total: Any) -> Any:
    """A sum of gradients, infinite where float16 is."""
    if not ops.is_tensor(total) or not hasattr(total, "dtype") or type(total).__name__ == "IndexedSlices":
        return total
    return ops.where(ops.abs(total) >= _OVERFLOWS, total * float("inf"), total)


def scaled_by_share(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`scale_loss` of an optimizer: in a user's own step, the gradient that flows back is the replica's part."""

    @functools.wraps(plain)
    def scale_loss(self: Any, loss: Any) -> Any:
        scales = isinstance(self, LossScaleOptimizer) or self.loss_scale_factor is not None
        return plain(self, in_part(loss, self) if scales else loss)

    return scale_loss


def in_part(loss: Any, scaler: Any) -> Any:
    """In a user's own step, the same loss, of which a replica's part of the gradient flows back; elsewhere the loss itself.

    The replica remembers the `scaler`, through which the gradients go next: they are then added up.
    """
    running = current()
    if running is None or not running.own_step or not ops.is_tensor(loss):
        return loss

    def copied(value: Any) -> Any:
        def gradient(*args: Any, upstream: Any = None) -> Any:
            (upstream,) = args if upstream is None else (upstream,)
            running.scaled_by_share.add(id(scaler))
            return upstream * running.weight_as(upstream.dtype)

        return ops.copy(value), gradient

    return ops.custom_gradient(copied)(loss)
