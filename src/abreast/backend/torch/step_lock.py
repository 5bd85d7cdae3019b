"""Whose step it is: ranks meet in one order, whichever thread of this process trains. Imports no framework."""

from __future__ import annotations

import threading
import weakref
from time import monotonic
from typing import Any

_LULL_SECONDS = 1.0


class StepLock:
    """A thread holds it (`with step_lock`) for a step. It remembers the last step, and the model of each thread's last one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._thread, self._ended = 0, 0.0  # of the last step
        self._stepped = threading.local()

    def __enter__(self) -> None:
        self._condition.acquire()

    def __exit__(self, *_: object) -> None:
        self._condition.release()

    def note_step(self, model: Any) -> None:
        """A step of this thread has ended."""
        self._thread, self._ended = threading.get_ident(), monotonic()
        self._stepped.model = weakref.ref(model)

    def last_model(self) -> Any | None:
        """The model of this thread's last step, while it lives."""
        known = getattr(self._stepped, "model", None)
        return None if known is None else known()

    @property
    def is_of_another_thread(self) -> bool:
        """Whether another thread makes steps. One that makes none may wait for ours, as in a callback."""
        return self._thread != threading.get_ident() and monotonic() - self._ended < _LULL_SECONDS

    def let_others(self) -> None:
        """Let other threads have the lock for a moment; this one holds it before and after."""
        self._condition.wait(_LULL_SECONDS / 10)
