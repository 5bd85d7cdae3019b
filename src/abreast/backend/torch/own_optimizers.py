"""Optimizers of Keras and of PyTorch that a user's own `train_step` calls: they get the gradients of all rows.

A `torch.amp.GradScaler` looks for overflows before its optimizer's step, so it adds the gradients up before that. Not here: the
sum of Keras's own step (`sums.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.amp import GradScaler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from abreast import exact
from abreast.backend.torch.sums import check_same_weights, dense_ones, ranks_with
from abreast.errors import ModelError
from abreast.keras_private.optimizers import BaseOptimizer, LossScaleOptimizer

ON_UNSCALE: list[Callable[[torch.optim.Optimizer], None]] = []  # called before a `GradScaler` divides gradients


@functools.cache
def install() -> None:
    """Make optimizers called in a user's own `train_step` apply the gradient of the global batch. Runs once."""
    for optimizer in (BaseOptimizer, LossScaleOptimizer):
        optimizer.apply = _apply_summed(optimizer.apply)
    register_optimizer_step_pre_hook(_before_step)
    scaler: Any = GradScaler
    scaler.scale, scaler._unscale_grads_ = _scale_in_part(scaler.scale), _unscale_summed(scaler._unscale_grads_)


def _apply_summed(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        running = exact.current()
        if running is None or not running.own_step:
            return plain(self, grads, trainable_variables)
        given = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        own, weights = exact.by_weight(self, grads, given)
        with torch.no_grad():
            if running.depends_on_values and not self.built:
                check_same_weights(running, weights)
            sums = _sum_weighted(running, own, weights, self)
            if running.link.num_replicas > 1 and trainable_variables is not None:
                sums = exact.overflowing_as_half(running.model, self, sums, weights)
        for weight, gradient, total in zip(weights, own, sums, strict=False):
            if weight.value.grad is gradient:  # what callbacks read is of all rows, too
                weight.value.grad = total
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


def _before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    running = exact.current()
    if running is None or not running.own_step:
        return
    if id(optimizer) in running.summed:
        running.summed.remove(id(optimizer))
    else:
        _sum_gradients(running, optimizer, optimizer)


def _scale_in_part(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def scale(self: Any, outputs: Any) -> Any:
        if self._enabled and isinstance(outputs, torch.Tensor):
            outputs = exact.in_part(outputs, self)
        elif self._enabled and exact.current() is not None:
            outputs = [exact.in_part(each, self) for each in outputs]
        return plain(self, outputs)

    return scale


def _unscale_summed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Add up the gradients before a `GradScaler` looks for overflows in them: all ranks must find the same."""

    @functools.wraps(plain)
    def unscale(self: Any, optimizer: torch.optim.Optimizer, *args: Any) -> Any:
        running = exact.current()
        if running is not None and running.own_step:
            _sum_gradients(running, optimizer, self)
            running.summed.add(id(optimizer))
        for note in ON_UNSCALE:
            note(optimizer)
        return plain(self, optimizer, *args)

    return unscale


@torch.no_grad()
def _sum_gradients(running: exact.Replica, optimizer: torch.optim.Optimizer, scaler: Any) -> None:
    """Replace the gradients of a PyTorch optimizer in a user's own `train_step` by those of all rows."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    own = [parameter.grad for parameter in parameters]
    sums = _sum_weighted(running, own, parameters, scaler)
    if isinstance(scaler, GradScaler) and running.link.num_replicas > 1:
        sums = _overflowing_as_half(running, own, sums)
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total


def _overflowing_as_half(running: exact.Replica, own: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
    """The sums, infinite where float16 is, of gradients that were computed in float16: their numbers have no more digits.

    `torch.autocast` computes some gradients in float16 and others not, whatever the policy of a layer.
    """
    present = [gradient for gradient in dense_ones(own) if gradient is not None]
    if not present:
        return list(sums)
    halves = torch.stack([(gradient == gradient.half()).all() for gradient in present]).float()
    everywhere = iter(running.link.all_sum(halves) == running.link.num_replicas)
    return [
        total if gradient is None else torch.where(next(everywhere), exact.as_half(total), total)
        for gradient, total in zip(own, sums, strict=True)
    ]


def _sum_weighted(running: exact.Replica, gradients: list[Any], weights: Sequence[Any], scaler: Any) -> list[Any]:
    """Turn gradients of means over this rank's rows, or its parts, into those of the mean over all rows, with one sum."""
    gradients = dense_ones(gradients)
    if running.depends_on_values:
        ranks = ranks_with(running, [each is not None for each in gradients])
        gradients = [
            None if not number else torch.zeros_like(getattr(weight, "value", weight)) if each is None else each
            for each, weight, number in zip(gradients, weights, ranks, strict=True)
        ]
    present = [gradient for gradient in gradients if gradient is not None]
    if not present:
        return gradients
    weight = float(running.rows > 0) if id(scaler) in running.scaled_by_share else running.weight
    flat = torch.cat(
        [(gradient * weight if weight else torch.zeros_like(gradient)).reshape(-1) for gradient in present]
    )
    parts = iter(running.link.all_sum(flat).split([gradient.numel() for gradient in present]))
    return [None if gradient is None else next(parts).reshape(gradient.shape) for gradient in gradients]
