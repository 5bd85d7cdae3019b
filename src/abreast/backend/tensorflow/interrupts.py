"""Ctrl+C while the main thread waits inside of TensorFlow for a step, and the step for another process.

Python handles a signal only when the main thread gets back to it. The number of a signal is written to a socket at once, and an
exchange that waits reads it there.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading


class Interrupts:
    """Made in the main thread; elsewhere, and where somebody else handles Ctrl+C, it notices nothing."""

    def __init__(self) -> None:
        self._signals, sender = socket.socketpair()
        for end in (self._signals, sender):
            end.setblocking(False)
        if threading.current_thread() is not threading.main_thread() or not _is_plain():
            return
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        self._sender = sender  # as long as signals are written to it

    def forget(self) -> None:
        """Python has handled all signals so far: its main thread calls this."""
        with contextlib.suppress(BlockingIOError):
            while self._signals.recv(256):
                pass

    def look(self) -> None:
        """Raises `KeyboardInterrupt` if Ctrl+C was pressed since `forget`."""
        with contextlib.suppress(BlockingIOError):
            if signal.SIGINT in self._signals.recv(256, socket.MSG_PEEK) and _is_plain():
                raise KeyboardInterrupt


def _is_plain() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
