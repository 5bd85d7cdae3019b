"""The frames that the threads of this process execute. Imports no framework."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LOCK = threading.RLock()
# After a fork during another thread's block, the child would have a held lock, and no garbage collector.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@contextmanager
def frames() -> Iterator[dict[int, FrameType]]:
    """The innermost frame of every thread, by the thread's identifier. Follow `f_back` only inside the block.

    The garbage collector is off inside the block. If it ran while CPython creates a frame object, the objects it frees could
    let another thread run: then the frame could belong to a call that has ended, and `f_back` could be another object. CPython
    before 3.11.9 may also hang in `sys._current_frames` (python/cpython#106883). Only one thread may be in the block at a
    time, because the first one to leave would turn the collector on for the others.
    """
    with _LOCK:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield sys._current_frames()
        finally:
            if collects:
                gc.enable()
