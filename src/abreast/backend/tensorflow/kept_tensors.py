"""Tensors that layers of the user's keep in attributes during a step, apart for each replica.

Replicas take turns in one process and share the layers' Python objects. A layer that keeps `self.features` in one turn must find
its own replica's tensor in the next one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from abreast import exact
from abreast.keras_private.modules import KERAS

_DEPTH = 3  # of containers in containers


class _Value(NamedTuple):
    """The value of an attribute; of a container, also a copy of its contents."""

    value: Any
    contents: Any


class KeptTensors:
    """`enter(index)` puts the tensors of a replica in their places, before each of its turns; `enter(None)` ends its turn."""

    def __init__(self, model: Any) -> None:
        layers = [model, *model._flatten_layers(include_self=False)]
        self._spaces = [vars(layer) for layer in layers if not type(layer).__module__.startswith(KERAS)]
        self._before = [dict(space) for space in self._spaces]
        self._first = self._now = self._read()
        self._of: dict[int, list[dict[str, _Value]]] = {}
        self._index: int | None = None

    def enter(self, index: int | None) -> None:
        if self._index is not None:
            self._of[self._index] = self._now = self._read()
        self._index = index
        if index is not None:
            kept = self._of.get(index, self._first)
            for each in zip(self._spaces, self._before, self._now, kept, strict=True):
                _put(*each)

    def _read(self) -> list[dict[str, _Value]]:
        return [_kept_in(space) for space in self._spaces]


def _kept_in(space: dict[str, Any]) -> dict[str, _Value]:
    """The attributes that are tensors, and the containers, which may hold some."""
    found = {name: _Value(value, exact.contents_of(value)) for name, value in space.items()}
    return {name: kept for name, kept in found.items() if kept.contents is not None or _is_tensor(kept.value)}


def _put(space: dict[str, Any], before: dict[str, Any], now: dict[str, _Value], kept: dict[str, _Value]) -> None:
    """Replace the tensors that are in a layer's attributes `now` by those of another replica; `before`: without any."""
    for name in now.keys() | kept.keys():
        value = kept.get(name)
        if not (_holds_tensors(now.get(name)) or _holds_tensors(value)):
            continue
        if value is not None:
            space[name] = value.value
            if value.contents is not None:
                exact.refill(value.value, value.contents)
        elif name in before:
            space[name] = before[name]
        else:
            space.pop(name, None)  # `KeptApart` may have deleted it


def _holds_tensors(kept: _Value | None) -> bool:
    return kept is not None and _has_tensors(kept.value if kept.contents is None else kept.contents, _DEPTH)


def _has_tensors(value: Any, depth: int) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value
    if isinstance(items, list | tuple) and depth:
        return any(_has_tensors(item, depth - 1) for item in items)
    return _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and not isinstance(value, keras.Variable | tf.Variable)
