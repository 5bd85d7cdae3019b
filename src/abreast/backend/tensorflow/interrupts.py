"""Ctrl+C while the main thread waits inside TensorFlow for a step, and the step waits for another process.

Python handles a signal only when the main thread returns to Python code. But Python writes the signal's number to a socket at
once, and a waiting exchange reads it there.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading


class Interrupts:
    """Notices Ctrl+C. It notices nothing if it is made outside the main thread, or if other code handles Ctrl+C."""

    def __init__(self) -> None:
        self._signals, sender = socket.socketpair()
        for end in (self._signals, sender):
            end.setblocking(False)
        if threading.current_thread() is not threading.main_thread() or not _is_plain():
            return
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        self._sender = sender  # kept open, because signals are written to it

    def forget(self) -> None:
        """Forget earlier signals. The main thread calls this, so Python has handled all of them."""
        with contextlib.suppress(BlockingIOError):
            while self._signals.recv(256):
                pass

    def look(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl+C was pressed since `forget`."""
        with contextlib.suppress(BlockingIOError):
            if signal.SIGINT in self._signals.recv(256, socket.MSG_PEEK) and _is_plain():
                raise KeyboardInterrupt


def _is_plain() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
