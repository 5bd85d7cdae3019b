"""Warnings that are given once for a model, however many of its steps they hold for.

Imports no framework and nothing of Keras.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def warn_once(about: Any, topic: str, message: str) -> None:
    """Warn, as from the caller's caller, unless this was done for the object and the topic before."""
    topics = _told.setdefault(about, set())
    if topic not in topics:
        topics.add(topic)
        warnings.warn(message, stacklevel=3)
