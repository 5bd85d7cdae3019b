"""A worker process from the inside: its heartbeat, its complaint (an error sent to the caller), and its end with the caller.

Needs Linux for `PR_SET_PDEATHSIG`.
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

IDLE, COMPUTING, COMMUNICATING = 0, 1, 2  # the main thread waits for the caller, works, or waits for other ranks
BEAT = struct.Struct("<cQB")  # b"H", progress, phase
BEAT_SECONDS = 0.5
STOP_SECONDS = 2.0
_END_SECONDS = 0.1  # short, since after Ctrl-C the caller waits for all workers to end
_TEXT_BYTES = 24 * 1024
_PR_SET_PDEATHSIG = 1


class Worker:
    """The argument of a worker's `main`: its rank and its argument, and methods that report progress to the caller."""

    def __init__(self, rank: int, argument: str, fds: tuple[int, ...], monitor: socket.socket) -> None:
        self.rank = rank
        self.argument = argument
        self.fds = fds
        self._monitor = monitor
        self._phase = COMPUTING
        self._progress = 0

    def beat(self) -> None:
        """Report that a long computation makes progress."""
        self._progress += 1
        if self._progress == 1:  # report at once that `main` has begun, even if the process is stopped right after this
            self._report()

    def set_phase(self, phase: int) -> None:
        """Set the phase to `IDLE`, `COMPUTING` or `COMMUNICATING`; this counts as progress."""
        self._phase = phase
        self.beat()

    @contextlib.contextmanager
    def phase(self, phase: int) -> Iterator[None]:
        """Set a phase for a block. After an exception the phase stays, so that the complaint names it."""
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
        # A caller that is stopped does not read. If the buffer is full, this beat is not needed.
        with contextlib.suppress(OSError):
            self._monitor.send(BEAT.pack(b"H", self._progress, self._phase), socket.MSG_DONTWAIT)

    def _hold_lifeline(self) -> None:
        try:
            if self._monitor.recv(1) == b"Q":
                if self._phase != IDLE:
                    time.sleep(_END_SECONDS)  # the main thread may end by itself
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


def serve(settings: dict[str, Any]) -> None:
    """A worker process from start to end; does not return."""
    die_with(settings["parent"])
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGUSR1,
    ):  # the caller handles these; Slurm sends them to every process
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    for fd in (settings["monitor"], *settings["fds"]):
        os.set_inheritable(fd, False)
    worker = Worker(
        settings["rank"], settings["argument"], tuple(settings["fds"]), socket.socket(fileno=settings["monitor"])
    )
    threading.Thread(target=worker._heartbeat, name="abreast-heartbeat", daemon=True).start()
    threading.Thread(target=worker._hold_lifeline, name="abreast-lifeline", daemon=True).start()
    code = 0
    try:
        importlib.import_module(settings["module"]).main(worker)
    except BaseException as error:
        code = 1
        worker._complain(error)
    finally:
        _flush()
        os._exit(code)  # a framework's own threads could delay an orderly exit


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()


def die_with(parent: int) -> None:
    """End this process when the thread that started it, in process `parent`, ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(0)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(the message of the error cannot be shown)"


def _format(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def _clip(text: str) -> str:
    """The text, or its start and its end if it is too long for one message."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= _TEXT_BYTES // 2:
        return text
    return text[: _TEXT_BYTES // 4] + "\n...\n" + text[-_TEXT_BYTES // 4 :]
