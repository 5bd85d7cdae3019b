"""Warnings of differences, given once per model, for any number of steps; to stderr where a filter of the user's hides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from abreast import users_line

LISTENERS: list[Callable[[str], None]] = []  # called with each warning, also where a filter hides it

_given: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def warn_once(about: Any, topic: str, message: str) -> None:
    """Warn at the user's line, unless there was a warning on this topic for this object before."""
    topics = _given.setdefault(about, set())
    if topic not in topics:
        topics.add(topic)
        for listener in LISTENERS:
            listener(message)
        users_line.warn(message, at_least_tell=True)
