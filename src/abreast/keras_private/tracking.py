"""The containers in which a layer keeps lists and dictionaries of layers and variables.

`TRACKED_ORDERED`: `(TrackedOrderedDict,)` since 3.14, empty with 3.13.
"""

from __future__ import annotations

from typing import Any

from keras.src.utils import tracking
from keras.src.utils.tracking import TrackedDict, TrackedList, TrackedSet, Tracker

__all__ = ["TRACKED_ORDERED", "TrackedDict", "TrackedList", "TrackedSet", "Tracker"]

_ordered: Any = getattr(tracking, "TrackedOrderedDict", None)
TRACKED_ORDERED: tuple[Any, ...] = () if _ordered is None else (_ordered,)
