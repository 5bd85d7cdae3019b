"""Python's containers in attributes: their present contents, and how to put these back. Imports no framework."""

from __future__ import annotations

import collections
import queue
import types
from typing import Any

CONTAINERS = (list, dict, set, collections.deque)
_BASES: tuple[Any, ...] = (collections.OrderedDict, *CONTAINERS)


def unwrapped(value: Any) -> Any:
    """The plain container in a tracking container of TensorFlow, in a queue, or of a bound method; any other value as it is."""
    if type(value).__module__.startswith("tensorflow."):
        inner = getattr(value, "__wrapped__", None)
        return getattr(value, "_storage", value) if inner is None else inner
    if isinstance(value, queue.Queue):
        return vars(value).get("queue", value)
    if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, CONTAINERS):
        return value.__self__
    return value


def _base(container: Any) -> Any:
    """Python's own class of a container: a class of the user may have methods such as `__iter__` of its own."""
    return next(kind for kind in _BASES if isinstance(container, kind))


def contents_of(value: Any) -> Any:
    """A copy of the items of a container, as a dict or a list; None for any other value."""
    value = unwrapped(value)
    if not isinstance(value, CONTAINERS):
        return None
    base = _base(value)
    return dict(base.items(value)) if isinstance(value, dict) else list(base.__iter__(value))


def values_of(container: Any) -> list[Any]:
    """The items of a list, a tuple, a set or a deque; the values of a dict."""
    return list(container.values()) if isinstance(container, dict) else list(container)


def refill(container: Any, items: Any) -> None:
    """Fill a container without calling the hooks of Keras's tracked containers."""
    wrapper, container = container, unwrapped(container)
    if _same(contents_of(container), items):
        return
    base = _base(container)
    if isinstance(container, list):
        base.__setitem__(container, slice(None), items)
    else:
        base.clear(container)
    if isinstance(container, dict):
        for key, value in items.items():
            base.__setitem__(container, key, value)
    elif isinstance(container, set):
        base.update(container, items)
    elif isinstance(container, collections.deque):
        base.extend(container, items)
    if wrapper is not container:  # else TensorFlow cannot save it: it was "modified outside the wrapper"
        for name in _SNAPSHOTS & getattr(wrapper, "__dict__", {}).keys():
            setattr(wrapper, name, type(items)(items))


# What TensorFlow's tracking containers remember of their items.
_SNAPSHOTS = {"_last_wrapped_list_snapshot", "_self_last_wrapped_dict_snapshot"}


def _same(now: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return list(now) == list(before) and all(now[key] is before[key] for key in before)
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
