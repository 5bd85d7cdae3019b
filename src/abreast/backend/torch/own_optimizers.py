"""Optimizers of Keras and of PyTorch that a user's own `train_step` calls: they get the gradients of all rows.

Not here: the sum of Keras's own step (`sums.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import GradScaler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from abreast import exact
from abreast.backend.torch.sums import check_same_weights, note_sum, sum_weighted
from abreast.errors import ModelError
from abreast.keras_private.optimizers import BaseOptimizer, LossScaleOptimizer
from abreast.keras_private.torch import get_device


@functools.cache
def install() -> None:
    """Make optimizers called in a user's own `train_step` apply the gradient of the global batch. Runs once."""
    for optimizer in (BaseOptimizer, LossScaleOptimizer):
        optimizer.apply = _apply_summed(optimizer.apply)
    register_optimizer_step_pre_hook(_sum_of_torch)
    scaler: Any = GradScaler
    scaler._unscale_grads_ = _unscale_alike(scaler._unscale_grads_)


def _apply_summed(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        running = exact.current()
        if running is None or not running.own_step:
            return plain(self, grads, trainable_variables)
        given = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        running.applies = True
        own, weights = exact.by_weight(self, grads, given)
        with torch.no_grad():
            if running.depends_on_values and not self.built:
                check_same_weights(running, weights)
            sums = sum_weighted(running, own, weights, id(self) in running.scaled_by_share)
            if running.link.num_replicas > 1 and trainable_variables is not None:
                sums = exact.overflowing_as_half(running.model, self, sums, weights)
        for weight, gradient, total in zip(weights, own, sums, strict=False):
            if weight.value.grad is gradient:  # what callbacks read is of all rows, too
                weight.value.grad = None if total is None else note_sum(running, weight.value, total)
        with exact.replica(None):
            return plain(self, *(sums, None) if trainable_variables is None else exact.handed_on(sums, weights, given))

    return apply


def check_optimizers(model: Any) -> None:
    """Refuse an optimizer of PyTorch that computes the loss several times in a step."""
    for name, value in vars(model).items():
        if isinstance(value, torch.optim.LBFGS):
            raise ModelError(
                f"{type(model).__name__}.{name} is a torch.optim.LBFGS, which computes loss and gradients several times in a "
                "step: each device would search along a line for its own rows",
                "use an optimizer that takes one gradient in a step, or train on one device",
            )


@torch.no_grad()
def _sum_of_torch(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Replace, before a step of a PyTorch optimizer in a user's own `train_step`, its gradients by those of all rows."""
    running = exact.current()
    if running is None or not running.own_step:
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    running.applies = True
    gradients = sum_weighted(running, [parameter.grad for parameter in parameters], parameters, are_parts=False)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else note_sum(running, parameter, gradient)


def _unscale_alike(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Let the `GradScaler` of every rank find an overflow where that of one does: all skip the same steps."""

    @functools.wraps(plain)
    def unscale(self: Any, *args: Any) -> Any:
        found: dict[torch.device, torch.Tensor] = plain(self, *args)
        running = exact.current()
        if running is not None and running.own_step and running.link.num_replicas > 1:
            own = sum((float(number) for number in found.values()), 0.0)
            if float(running.link.all_sum(torch.tensor([own], device=get_device()))) > 0:
                exact.announce_overflow(running.model)
                for number in found.values():
                    number.fill_(1.0)
        return found

    return unscale
