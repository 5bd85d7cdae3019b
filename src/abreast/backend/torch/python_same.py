"""The comparison of values in `PythonState`: the rule by which two values count as the same.

Values are compared by Python's `==`, except where a class defines its own, and except for tensors that a step left.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import numpy as np
import torch

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BY_IDENTITY: Any = object.__eq__


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a string, an array, or a container of those."""
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return all(map(is_plain, value))
    return isinstance(value, (*PLAIN, np.generic, np.ndarray))


class _Itself:
    """Stands for an object and equals only that object, whatever the object's own `==` returns."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return other is self.value

    __hash__ = None  # type: ignore[assignment]


class _OfAStep:
    """Stands for a tensor that a step left with its graph: every rank has its own, and this keeps none alive."""

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
    """Whether the class defines an `==` that may treat two different objects as equal."""
    known = ("builtins", "collections", "numpy", "torch", "keras")
    return kind.__eq__ is not _BY_IDENTITY and kind.__module__.partition(".")[0] not in known


def comparable(value: Any) -> Any:
    """Stands for a value in comparisons by `==`: a number or text equals those that are equal, all else only itself."""
    return value if isinstance(value, PLAIN) else _Itself(value)


def kinds(values: Any) -> list[Any]:
    """Properties of a container that `==` ignores: the order of a dict's keys, and the types (`1 == 1.0 == True`)."""
    return [*values, *map(type, values.values())] if hasattr(values, "values") else [*map(type, values)]


def bare(value: Any) -> Any:
    return value.value if type(value) is _Itself else None if value is _OF_A_STEP else value


def is_same(value: Any, other: Any) -> bool:
    if value is other or value is _OF_A_STEP:
        return True
    if type(value) is _Itself or type(other) is _Itself:
        return bare(value) is bare(other)
    return type(value) is type(other) and isinstance(value, PLAIN) and (value == other or value != value)
