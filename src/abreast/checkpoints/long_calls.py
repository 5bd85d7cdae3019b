"""Signals while the main thread is in a long call, such as a compiler's: Python's own handlers run only after that call.

A thread reads the signals' numbers from a pipe; Python writes them to it at once (`signal.set_wakeup_fd`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

_numbers: frozenset[int] = frozenset()  # the signals that are watched now
_fork = threading.local()


@contextmanager
def seen_at_once(numbers: Collection[int], act: Callable[[], None]) -> Iterator[None]:
    """Inside, the first of these signals calls `act` in a thread at once. Only the main thread may enter this."""
    global _numbers
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _numbers = frozenset(numbers)
    thread = threading.Thread(target=_wait, args=(reading, numbers, act), name="abreast-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        _numbers = frozenset()
        if (now := signal.set_wakeup_fd(before)) not in (writing, before):
            signal.set_wakeup_fd(now)  # the script's, such as asyncio's
        os.close(writing)


def set_default_action(number: int) -> None:
    """Set a signal's default action from any thread; `signal.signal(number, SIG_DFL)` works in the main thread only."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.signal.restype = ctypes.c_void_p
        library.signal(ctypes.c_int(int(number)), ctypes.c_void_p(0))


def _wait(reading: int, numbers: Collection[int], act: Callable[[], None]) -> None:
    while byte := os.read(reading, 1):
        if byte[0] in numbers:
            act()
            break
    os.close(reading)


def _before_fork() -> None:
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _numbers)


def _in_child() -> None:
    """Detach a forked child from the pipe: its signals would count as its parent's. They are blocked until then."""
    if _numbers:
        signal.set_wakeup_fd(-1)
    _after_fork()


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
