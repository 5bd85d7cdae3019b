"""Warnings that are given once for a model, however many of its steps they hold for.

Imports no framework and nothing of Keras.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from abreast import users_line

_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def warn_once(about: Any, topic: str, message: str) -> None:
    """Warn, as from the user's line, unless this was done for the object and the topic before."""
    topics = _told.setdefault(about, set())
    if topic not in topics:
        topics.add(topic)
        users_line.warn(message)
