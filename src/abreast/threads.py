"""Where the threads of this process are. Imports no framework."""

from __future__ import annotations

import gc
import sys
from types import FrameType


def frames() -> dict[int, FrameType]:
    """The innermost frame of every thread, by the thread's identifier.

    CPython before 3.11.9 and 3.12 may stop for ever when the garbage collector runs within `sys._current_frames`
    (python/cpython#106883): it rests meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()
