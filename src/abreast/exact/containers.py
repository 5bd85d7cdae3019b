"""Python's containers in attributes: their present contents, and how to put these back. Imports no framework."""

from __future__ import annotations

import collections
from typing import Any

CONTAINERS = (list, dict, set, collections.deque)


def unwrapped(value: Any) -> Any:
    """The plain container inside a tracking container of TensorFlow; any other value as it is."""
    if type(value).__module__.startswith("tensorflow."):
        return getattr(value, "__wrapped__", None) or getattr(value, "_storage", value)
    return value


def contents_of(value: Any) -> Any:
    """A copy of the items of a container, as a dict or a list; None for any other value."""
    value = unwrapped(value)
    if not isinstance(value, CONTAINERS):
        return None
    return dict(value) if isinstance(value, dict) else list(value)


def values_of(container: Any) -> list[Any]:
    """The items of a list, a tuple, a set or a deque; the values of a dict."""
    return list(container.values()) if isinstance(container, dict) else list(container)


def refill(container: Any, items: Any) -> None:
    """Fill a container without calling the hooks of Keras's tracked containers."""
    container = unwrapped(container)
    if _same(contents_of(container), items):
        return
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, items)
    elif isinstance(container, list):
        list.__setitem__(container, slice(None), items)
    elif isinstance(container, set):
        set.clear(container)
        set.update(container, items)
    else:
        container.clear()
        container.extend(items)


def _same(now: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return now.keys() == before.keys() and all(now[key] is before[key] for key in before)
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
