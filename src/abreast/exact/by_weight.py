"""Gradients in the order of an optimizer's weights: a step may leave out weights, and others on each replica."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from abreast.errors import ModelError


def by_weight(optimizer: Any, gradients: Iterable[Any], weights: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The gradients of all weights of a built optimizer, None for those that the user's code left out, and these weights.

    As given for an optimizer that is not built, or that does not know a weight: Keras refuses this weight.
    """
    gradients, given = list(gradients), list(weights)
    known = list(optimizer._trainable_variables) if optimizer.built else []
    places = {id(weight): place for place, weight in enumerate(known)}
    if any(id(weight) not in places for weight in given) or len(gradients) != len(given):
        return gradients, given
    spread: list[Any] = [None] * len(known)
    for gradient, weight in zip(gradients, given, strict=True):
        spread[places[id(weight)]] = gradient
    return spread, known


def other_weights() -> ModelError:
    """The error for replicas that call an optimizer with gradients of other weights, before it knows all weights."""
    return ModelError(
        "the replicas call an optimizer that is not built with gradients of other weights, because their rows choose them",
        "call optimizer.build(model.trainable_variables) before fit, or pass None for a weight without a gradient",
    )


def handed_on(sums: list[Any], weights: list[Any], given: list[Any]) -> tuple[list[Any], list[Any]]:
    """The sums and weights for Keras: those of the user's list, and those that another replica has a gradient for."""
    own = {id(weight) for weight in given}
    pairs = [
        (total, weight) for total, weight in zip(sums, weights, strict=True) if total is not None or id(weight) in own
    ]
    return [total for total, _ in pairs], [weight for _, weight in pairs]
