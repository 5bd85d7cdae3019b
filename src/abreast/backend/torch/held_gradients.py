"""Gradients that a user's own step leaves in `.grad`: a later step adds to them (accumulation by hand), or a callback reads them.

After its backward, each rank has the gradient of its own rows there. A sum makes it that of all rows, on every rank: if no
optimizer got a gradient in the step, before the user's code runs, and before a step whose rows are cut otherwise.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from abreast import exact
from abreast.backend.torch.buffers import as_array
from abreast.backend.torch.link import TorchLink
from abreast.backend.torch.sums import dense_ones, has_sum, note_sum, sum_weighted
from abreast.keras_private.optimizers import LossScaleOptimizer
from abreast.keras_private.torch import get_device


class HeldGradients:
    """The gradients of a replica's weights between two steps of the user's own."""

    def __init__(self, model: Any, link: TorchLink) -> None:
        self._model = model
        self._weights = list(model.parameters())
        self._link = link
        self._last: exact.Replica | None = None
        self._last_counts: Sequence[int] = ()
        self.is_open = False  # whether ranks may have gradients of their own rows

    @contextmanager
    def step(self, running: exact.Replica, counts: Sequence[int]) -> Iterator[None]:
        """Around a step of the user's own with `counts` rows on the ranks."""
        if self._link.num_replicas == 1:
            yield
            return
        if self._last is None:
            self._take_over(counts)
        else:
            if counts != self._last_counts:
                self.collect()
            self._keep_once(self._last, counts)
        self._last, self.is_open = None, False
        yield
        # Without what holds the step's tensors.
        self._last, self._last_counts = replace(running, added_losses={}, left=[], unique=[], new_metrics=[]), counts
        self.is_open = running.depends_on_values or any(map(self._is_own, self._weights))
        if not running.applies:
            self.collect()

    @torch.no_grad()
    def collect(self) -> None:
        """Make the gradients that the last step has left those of all rows, if they are not."""
        if not self.is_open or self._last is None:
            return
        self.is_open = False
        in_parts = _in_parts(self._last)
        for are_parts in (False, True):
            weights = [weight for weight in self._weights if (id(weight) in in_parts) is are_parts]
            own = [weight.grad if self._is_own(weight) else None for weight in weights]
            for weight, total in zip(weights, sum_weighted(self._last, own, weights, are_parts), strict=True):
                if total is not None:
                    note_sum(self._last, weight, self._set(weight, total))

    def _is_own(self, weight: torch.Tensor) -> bool:
        """Whether a weight has a gradient of this rank's rows."""
        assert self._last is not None
        return weight.grad is not None and not has_sum(self._last, weight)

    def _set(self, weight: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        """Set the gradient of a weight in place: the user's code may hold it."""
        if weight.grad is None or weight.grad.layout != torch.strided:
            weight.grad = total.to(weight.dtype)
        else:
            weight.grad.copy_(total)
        return weight.grad

    @torch.no_grad()
    def _take_over(self, counts: Sequence[int]) -> None:
        """Give every rank the gradients that rank 0 has before its first step: they are of all rows."""
        is_first = self._link.index == 0
        held = torch.tensor([is_first and weight.grad is not None for weight in self._weights], dtype=torch.int64)
        present = self._link.all_sum(held.to(get_device())).tolist()
        scaling = [each for each in exact.optimizers(self._model) if isinstance(each, LossScaleOptimizer)]
        in_parts = _weights_of(self._model, scaling)
        for weight, is_there in zip(self._weights, present, strict=True):
            if not is_there:
                weight.grad = None
                continue
            (own,) = dense_ones([weight.grad if is_first else torch.zeros_like(weight)])
            total = self._set(weight, self._link.all_sum(own))
            if id(weight) in in_parts and self._link.index != _keeper(counts):
                total.zero_()

    @torch.no_grad()
    def _keep_once(self, last: exact.Replica, counts: Sequence[int]) -> None:
        """Leave sums, to which the ranks add parts, on one rank."""
        if self._link.index == _keeper(counts) or not last.scaled_by_share:
            return
        in_parts = _in_parts(last)
        for weight in self._weights:
            if weight.grad is not None and id(weight) in in_parts and has_sum(last, weight):
                weight.grad.zero_()


def _keeper(counts: Sequence[int]) -> int:
    """The first rank that has rows."""
    return next(index for index, rows in enumerate(counts) if rows)


def _in_parts(running: exact.Replica) -> Container[int]:
    """By identity: weights whose gradients add up, because an optimizer has scaled the loss by the share of each rank."""
    return _weights_of(running.model, list(running.scaled_by_share.values()))


def _weights_of(model: Any, optimizers: Sequence[Any]) -> Container[int]:
    """By identity: the weights of some optimizers; all of the model, if one of them is not built."""
    if not all(optimizer.built for optimizer in optimizers):
        return {id(weight) for weight in model.parameters()}
    return {id(weight.value) for optimizer in optimizers for weight in optimizer._trainable_variables}


# A checkpoint. Before it is written, `collect` has run.

_PREFIX = "gradient/"


def read(model: Any) -> dict[str, Any]:
    """Copies of the gradients between two steps of the user's own, as NumPy arrays, by the number of the weight."""
    if not exact.overrides_step(model):
        return {}
    gradients = [weight.grad for weight in model.parameters()]
    return {f"{_PREFIX}{i}": as_array(each) for i, each in enumerate(dense_ones(gradients)) if each is not None}


def write(model: Any, values: Mapping[str, Any]) -> None:
    """Set the gradients that `read` returned, of a model with the same weights. `values` may have others beside them."""
    for i, weight in enumerate(model.parameters()):
        value = values.get(f"{_PREFIX}{i}")
        if value is not None:
            weight.grad = torch.from_numpy(np.array(value)).to(weight.device, weight.dtype)


def without(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.startswith(_PREFIX)}
