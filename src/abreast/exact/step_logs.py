"""The logs of a step, which may be nested. The name of a value joins the keys that lead to it by slashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def map_logs(function: Callable[..., Any], *logs: Any, name: str = "") -> Any:
    """The logs with `function(name, *values)` in place of the values that several logs of one structure have in one place."""
    first = logs[0]
    start = f"{name}/" if name else ""
    if isinstance(first, dict):
        return {key: map_logs(function, *(each[key] for each in logs), name=f"{start}{key}") for key in first}
    if type(first) in (list, tuple):
        places = enumerate(zip(*logs, strict=True))
        return type(first)([map_logs(function, *parts, name=f"{start}{number}") for number, parts in places])
    return function(name, *logs)
