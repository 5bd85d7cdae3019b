"""Where the threads of this process are. Imports no framework."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LOCK = threading.RLock()
# A fork in the middle of another thread's block would leave its child locked, and without the garbage collector.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@contextmanager
def frames() -> Iterator[dict[int, FrameType]]:
    """The innermost frame of every thread, by the thread's identifier. Go to those behind it (`f_back`) in the block only.

    The garbage collector rests meanwhile. If it ran while CPython makes a frame object, what it frees could let another
    thread go on: the frame would be of a call that has ended, `f_back` some other object; and CPython before 3.11.9 may
    stop for ever in `sys._current_frames` (python/cpython#106883). One thread at a time: the first to leave would let it
    run while another is still inside.
    """
    with _LOCK:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield sys._current_frames()
        finally:
            if collects:
                gc.enable()
