"""The frames and lines that the threads of this process execute, and the processor time they use. Imports no framework."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_NOT_THEIRS = (os.path.dirname(__file__), threading.__file__)
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


def line_of(thread: threading.Thread, outside: str) -> str:
    """The line that a thread executes, outside abreast and the folder `outside` if possible; "" if it has none."""
    with frames() as found:
        frame = found.get(thread.ident or 0)
        calls = [] if frame is None else list(traceback.extract_stack(frame))
    if not calls:
        return ""
    theirs = [call for call in calls if not call.filename.startswith((*_NOT_THEIRS, outside))]
    call = (theirs or calls)[-1]
    return f"{call.filename}:{call.lineno} in {call.name}"


def processor_seconds(thread: threading.Thread) -> float | None:
    """Seconds of a processor that a thread has used; None where the system does not tell, or the thread has ended."""
    if thread.ident is None or not thread.is_alive() or not hasattr(time, "pthread_getcpuclockid"):
        return None
    with suppress(OSError):
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return None
