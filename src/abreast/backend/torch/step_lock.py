"""A lock around steps: ranks meet in one order, whichever thread of this process trains. Imports no framework."""

from __future__ import annotations

import threading
import weakref
from time import monotonic
from typing import Any

_LULL_SECONDS = 1.0


class StepLock:
    """A lock that a thread holds during a step. It remembers the last step, and the model of each thread's last step."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._thread, self._ended = 0, 0.0  # of the last step
        self._stepped = threading.local()

    def __enter__(self) -> None:
        self._condition.acquire()

    def __exit__(self, *_: object) -> None:
        self._condition.release()

    def note_step(self, model: Any) -> None:
        """Record the end of a step of this thread."""
        self._thread, self._ended = threading.get_ident(), monotonic()
        self._stepped.model = weakref.ref(model)

    def last_model(self) -> Any | None:
        """The model of this thread's last step, while it lives."""
        known = getattr(self._stepped, "model", None)
        return None if known is None else known()

    @property
    def is_of_another_thread(self) -> bool:
        """Whether another thread ran a step in the last second. An idle thread may be waiting for ours, as in a callback."""
        return self._thread != threading.get_ident() and monotonic() - self._ended < _LULL_SECONDS

    def let_others(self) -> None:
        """Release the lock for other threads for a moment; this thread holds it before and after."""
        self._condition.wait(_LULL_SECONDS / 10)
