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

from abreast.exact.calls import PartRun, running
from abreast.exact.replica import current
from abreast.exact.warn_once import warn_once
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


def announce_overflow(model: Any) -> None:
    """Warn once that a device's own gradient has overflowed, or may overflow, where that of all rows does not."""
    warn_once(
        model,
        "overflow",
        f"{type(model).__name__} has its own train_step, which scales its loss: on each device this is the loss of its own rows, "
        "whose gradient may overflow float16 where that of all rows does not. The scale, or the weights, then go another way "
        "(a keras.optimizers.LossScaleOptimizer finds the overflows of all rows)",
    )


def announced_if_constant(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`scale_loss` of an optimizer with a `loss_scale_factor`: in a user's own step, an overflow of a replica's is announced."""

    @functools.wraps(plain)
    def scale_loss(self: Any, loss: Any) -> Any:
        running = current()
        if (
            self.loss_scale_factor is not None
            and running is not None
            and running.own_step
            and running.link.num_replicas > 1
        ):
            announce_overflow(running.model)
        return plain(self, loss)

    return scale_loss


def scaled_by_share(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`scale_loss` of an optimizer with a loss scale: in a user's own step, the gradient that flows back is the replica's part.

    The value of the loss stays the same. The replica remembers the optimizer, whose gradients are then added up. Runs of a part
    of a batch do the same: the row check so finds what else the step does with its gradients.
    """

    @functools.wraps(plain)
    def scale_loss(self: Any, loss: Any) -> Any:
        replica, run = current(), running()
        if not ops.is_tensor(loss):
            return plain(self, loss)
        if replica is not None and replica.own_step:
            return plain(self, _in_part(loss, self, replica.weight_as, replica.scaled_by_share))
        if isinstance(run, PartRun):
            return plain(self, _in_part(loss, self, lambda dtype: run.part.rows / run.part.total, run.scaled_by_share))
        return plain(self, loss)

    return scale_loss


def _in_part(loss: Any, optimizer: Any, weight: Callable[[Any], Any], scaled: dict[int, Any]) -> Any:
    """The same loss, with a gradient multiplied by `weight` of its type."""

    def copied(value: Any) -> Any:
        def gradient(*args: Any, upstream: Any = None) -> Any:
            (upstream,) = args if upstream is None else (upstream,)
            scaled[id(optimizer)] = optimizer
            return upstream * weight(upstream.dtype)

        return ops.copy(value), gradient

    return ops.custom_gradient(copied)(loss)
