"""What the watch of Python state compares in place of some values, and when two values count as the same.

Python's own `==` serves, except where a class says what it likes there, and for tensors that a step left. Imports NumPy, torch.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import numpy as np
import torch

_COMPARED = (bool, int, float, complex, str, bytes, type(None))
_BY_IDENTITY: Any = object.__eq__


def is_plain(value: Any) -> bool:
    """Numbers, strings, arrays, and containers of those."""
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return all(map(is_plain, value))
    return isinstance(value, (*_COMPARED, np.generic, np.ndarray))


class _Itself:
    """Equal to one object only, whatever that object's own `==` says."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return other is self.value

    __hash__ = None  # type: ignore[assignment]


class _OfAStep:
    """In place of a tensor that a step left with its graph: every rank has one of its own, and it is not kept alive."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


_OF_A_STEP = _OfAStep()


def settled(values: Any) -> dict[Any, Any]:
    return {name: settle(value) for name, value in values.items()}


def settle(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.grad_fn is None else _OF_A_STEP
    kind: Any = type(value)
    return _Itself(value) if _has_own_equality(kind) else value


@functools.cache
def _has_own_equality(kind: type) -> bool:
    """Whether `==` of that class may call two different objects the same."""
    known = ("builtins", "collections", "numpy", "torch", "keras")
    return kind.__eq__ is not _BY_IDENTITY and kind.__module__.partition(".")[0] not in known


def kinds(values: Any) -> list[Any]:
    """What `==` does not tell of containers: the order of a dict's keys, and the types (`1 == 1.0 == True`)."""
    return [*values, *map(type, values.values())] if hasattr(values, "values") else [*map(type, values)]


def bare(value: Any) -> Any:
    return value.value if type(value) is _Itself else None if value is _OF_A_STEP else value


def is_same(value: Any, other: Any) -> bool:
    if value is other or value is _OF_A_STEP:
        return True
    if type(value) is _Itself or type(other) is _Itself:
        return bare(value) is bare(other)
    return type(value) is type(other) and isinstance(value, _COMPARED) and (value == other or value != value)
