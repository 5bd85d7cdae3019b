"""A worker process from the inside: its heartbeat, its complaint, and its end with the caller.

Linux: leans on `PR_SET_PDEATHSIG`. Imports the standard library and `errors`.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from abreast.errors import AbreastError

IDLE, COMPUTING, COMMUNICATING = 0, 1, 2  # what a worker's main thread does: waits for us, works, waits for other ranks
BEAT = struct.Struct("<cQB")  # b"H", progress, phase
BEAT_SECONDS = 0.5
STOP_SECONDS = 2.0
_END_SECONDS = 0.1  # of which the caller, after Ctrl-C, waits for all
_TEXT_BYTES = 24 * 1024
_PR_SET_PDEATHSIG = 1


class Worker:
    """What a worker's `main` is given: who it is, and the means to say how it goes."""

    def __init__(self, rank: int, argument: str, fds: tuple[int, ...], monitor: socket.socket) -> None:
        self.rank = rank
        self.argument = argument
        self.fds = fds
        self._monitor = monitor
        self._phase = COMPUTING
        self._progress = 0

    def beat(self) -> None:
        """Say that a long computation goes on."""
        self._progress += 1
        if self._progress == 1:  # `main` has begun: known at once, however soon something stops us
            self._report()

    def set_phase(self, phase: int) -> None:
        """`IDLE`, `COMPUTING` or `COMMUNICATING`; counts as progress."""
        self._phase = phase
        self.beat()

    @contextlib.contextmanager
    def phase(self, phase: int) -> Iterator[None]:
        """`set_phase` for a block; one left by an exception stays, so that a complaint says where it came from."""
        before = self._phase
        self.set_phase(phase)
        yield
        self.set_phase(before)

    def _heartbeat(self) -> None:
        self._monitor.settimeout(None)
        while True:
            self._report()
            time.sleep(BEAT_SECONDS)

    def _report(self) -> None:
        # A caller who was stopped reads nothing: when the buffer is full, this beat is not needed.
        with contextlib.suppress(OSError):
            self._monitor.send(BEAT.pack(b"H", self._progress, self._phase), socket.MSG_DONTWAIT)

    def _hold_lifeline(self) -> None:
        try:
            if self._monitor.recv(1) == b"Q":
                if self._phase != IDLE:
                    time.sleep(_END_SECONDS)  # main may end by itself
                _flush()
        finally:
            os._exit(0)

    def _complain(self, error: BaseException) -> None:
        words = {
            "phase": self._phase,
            "type": type(error).__name__,
            "message": _clip(error.message if isinstance(error, AbreastError) else _text(error)),
            "hint": error.hint if isinstance(error, AbreastError) else None,
            "traceback": _clip(_format(error)),
        }
        with contextlib.suppress(OSError):
            self._monitor.settimeout(1.0)
            self._monitor.send(b"E" + json.dumps(words).encode())


def serve(seat: dict[str, Any]) -> None:
    """A worker process from start to end; does not return."""
    _die_with(seat["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    for fd in (seat["monitor"], *seat["fds"]):
        os.set_inheritable(fd, False)
    worker = Worker(seat["rank"], seat["argument"], tuple(seat["fds"]), socket.socket(fileno=seat["monitor"]))
    threading.Thread(target=worker._heartbeat, name="abreast-heartbeat", daemon=True).start()
    threading.Thread(target=worker._hold_lifeline, name="abreast-lifeline", daemon=True).start()
    code = 0
    try:
        importlib.import_module(seat["module"]).main(worker)
    except BaseException as error:
        code = 1
        worker._complain(error)
    finally:
        _flush()
        os._exit(code)  # a framework's own threads could keep an orderly end waiting


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()


def _die_with(parent: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(0)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


def _format(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def _clip(text: str) -> str:
    """The start and the end of a text that is too long for one message."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= _TEXT_BYTES // 2:
        return text
    return text[: _TEXT_BYTES // 4] + "\n...\n" + text[-_TEXT_BYTES // 4 :]
