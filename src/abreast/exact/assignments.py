"""Weights that a step of the user's sets itself, not by an optimizer, in later batches than the first, which the row check sees.

Imports no framework.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from abreast.exact.replica import Replica, current
from abreast.exact.warn_once import warn_once

_thread = threading.local()


def noted(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`Variable.assign` that lets the replica of a user's own step remember the variable, if it is trainable."""

    @functools.wraps(plain)
    def assign(variable: Any, value: Any) -> Any:
        running = current()
        if running is not None and running.own_step and variable.trainable and not is_in_optimizer():
            running.assigned[id(variable)] = variable
        return plain(variable, value)

    return assign


def is_in_optimizer() -> bool:
    """Whether this thread runs an optimizer, whose work is the same on every replica."""
    return getattr(_thread, "is_in_optimizer", False)


def by_optimizer(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's `apply`, whose assignments are those of one device."""

    @functools.wraps(plain)
    def apply(*args: Any, **kwargs: Any) -> Any:
        before = is_in_optimizer()
        _thread.is_in_optimizer = True
        try:
            return plain(*args, **kwargs)
        finally:
            _thread.is_in_optimizer = before

    return apply


def assigned_weights(replicas: Sequence[Replica]) -> list[Any]:
    """The weights that these replicas of a user's own `train_step` have set, in the order of the model. Warns once of them."""
    first, *others = replicas
    found = first.assigned.keys() | {each for replica in others for each in replica.assigned}
    if not found or first.kind != "train" or first.link.num_replicas == 1:
        return []
    known = first.relations.assigned if first.relations is not None else set()
    own = {id(weight) for layer in first.model._flatten_layers() for weight in layer._trainable_variables}
    weights = [
        variable
        for place, variable in enumerate(first.model.variables)
        if id(variable) in found & own and place not in known
    ]
    if weights and first.link.index == 0:
        names = ", ".join(weight.path for weight in weights[:3]) + (", ..." if len(weights) > 3 else "")
        warn_once(
            first.model,
            "assigned later",
            f"{type(first.model).__name__} has its own train_step, which sets weights that it did not change in the first "
            f"batch ({names}): each replica sets them by its own rows; after the step they are the mean over the rows. That is "
            "what one device computes if they are set to means over rows",
        )
    return weights
