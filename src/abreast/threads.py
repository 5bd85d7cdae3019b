"""Where the threads of this process are. Imports no framework."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def frames() -> Iterator[dict[int, FrameType]]:
    """The innermost frame of every thread, by the thread's identifier. Go to those behind it (`f_back`) in the block only.

    The garbage collector rests meanwhile. If it ran while CPython makes a frame object, what it frees could let another
    thread go on: the frame would be of a call that has ended, `f_back` some other object; and CPython before 3.11.9 may
    stop for ever in `sys._current_frames` (python/cpython#106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield sys._current_frames()
    finally:
        if collects:
            gc.enable()
