"""How processes leave a job of several: a good end waits for the others, and a bad one of any process soon ends all.

A process that waits for one that is gone may wait for ever. JAX alone also waits at the exit until all processes are there, and
ends a process by SIGABRT, with C++ frames, when another is gone. So each process writes down that it lives, and how it ends, and
reads the same of the others.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from abreast.stderr import tell
from abreast.workers.limits import hang_seconds

if TYPE_CHECKING:
    from abreast.backend.exchange import Board

PREFIXES = _LEFT, _ALIVE = "abreast/left/", "abreast/alive/"
_WELL = b" ended"
_EVERY_SECONDS = 1
_LOOK_SECONDS = 0.1
_SOON_SECONDS = 6  # that rank 0, whose end lets JAX abort the others, leaves them to end by themselves
_DEAD_SECONDS = 6  # silence after which a process whose connections have closed counts as the dead one
HINT = "the first error is in the output of the process that ended first"


class Leaving:
    """The end of this process in its job. `progress` returns the numbers of steps and messages that this process has begun."""

    def __init__(self, board: Board, rank: int, size: int, progress: Callable[[], tuple[int, int]]) -> None:
        self._board = board
        self._progress = progress
        self._rank = rank
        self._others = [each for each in range(size) if each != rank]
        self._heard: dict[int, tuple[str, float]] = {}  # of each rank, what it wrote last, and since when
        self._is_leaving = False
        self._hang_seconds = hang_seconds()
        self._waits = False  # for a message of another process
        self._cause: str | None = None  # the end of another process that ends this one
        self.in_call = False  # every call is one of all processes, so none may leave during it
        atexit.register(self._leave)  # before what JAX registered, which waits too
        threading.Thread(target=self._watch, name="abreast-job", daemon=True).start()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, this process waits for a message of another one, which then may not have left."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def progress(self, rank: int) -> tuple[int, int]:
        """The numbers of steps and messages that a process had begun a moment ago."""
        if rank not in self._heard:
            return 0, 0
        _, steps, messages, _ = self._heard[rank][0].split(" ")
        return int(steps), int(messages)

    def who_is_gone(self) -> str:
        """A process that has ended, or is silent; waits until that is known."""
        deadline = time.monotonic() + _DEAD_SECONDS + 2 * _EVERY_SECONDS
        while time.monotonic() < deadline and self._cause is None:
            self._cause = self._left()
            if self._cause is None and (silent := self._silent(_DEAD_SECONDS)) is not None:
                self._cause = f"{silent} has died"
            time.sleep(_EVERY_SECONDS / 4)
        return self._cause or "another process has ended"

    def failed(self, why: str) -> None:
        """Let the others know at once why this process cannot go on."""
        self._write_how(f" ended by an error: {why}")

    def _leave(self) -> None:
        failed = getattr(sys, "last_value", None) is not None  # Python notes there what it prints at the end
        self._write_how(" ended by an error" if failed else _WELL.decode())
        if failed:
            self._exit()
        while True:
            try:
                left = self._board.look(_LEFT)
            except Exception:  # any of the framework's
                self._end(f"{self._who(0)} cannot be reached")
            bad = next((how.decode() for how in left.values() if not how.endswith(_WELL)), None)
            if bad is not None:
                self._end(bad)
            if len(left) > len(self._others):
                break
            time.sleep(_LOOK_SECONDS)
        self._is_leaving = True
        self._board.close()

    def _watch(self) -> None:
        """End this process when another one is silent, or has left while this one is in a call, which would wait for ever."""
        count, unreachable, stuck = 0, 0, 0
        while not self._is_leaving:
            count += 1
            try:
                self._write_alive(count)
                self._hear()
                unreachable = 0
            except Exception:  # any of the framework's
                unreachable += 1
            left = self._left() if self.in_call or self._waits else None
            stuck = stuck + 1 if left is not None else 0
            if self._is_leaving:
                return
            if unreachable > _DEAD_SECONDS:
                self._end(f"{self._who(0)} cannot be reached")
            if left is not None and stuck > (2 * _DEAD_SECONDS if left.endswith(_WELL.decode()) else _SOON_SECONDS / 2):
                self._end(f"{left} while this process waited for it in a call")
            if (silent := self._silent(self._hang_seconds)) is not None:
                self._end(f"{silent} has been silent for {self._hang_seconds:g} s (ABREAST_HANG_SECONDS)")
            time.sleep(_EVERY_SECONDS)

    def _write_alive(self, count: int) -> None:
        steps, messages = self._progress()
        text = f"{count} {steps} {messages} {platform.node()}"
        self._board.write(f"{_ALIVE}{self._rank}", text.encode())

    def _hear(self) -> None:
        now = time.monotonic()
        for rank, text in self._board.look(_ALIVE).items():
            if self._heard.get(rank, ("", 0.0))[0] != text.decode():
                self._heard[rank] = (text.decode(), now)

    def _silent(self, seconds: float) -> str | None:
        now = time.monotonic()
        for rank in self._others:
            _, since = self._heard.get(rank, ("", now))
            if now - since > seconds:
                return self._who(rank)
        return None

    def _who(self, rank: int) -> str:
        """A process, with its host if it has said it."""
        text, _ = self._heard.get(rank, ("", 0.0))
        return f"rank {rank} on host {text.split(' ')[-1]}" if text else f"rank {rank}"

    def _left(self) -> str | None:
        with contextlib.suppress(Exception):
            for how in self._board.look(_LEFT).values():
                return how.decode()
        return None

    def _write_how(self, how: str) -> None:
        with contextlib.suppress(Exception):  # rank 0 may be gone
            if self._rank not in self._board.look(_LEFT):  # the first reason counts
                text = self._cause or f"rank {self._rank} on host {platform.node()}{how}"
                self._board.write(f"{_LEFT}{self._rank}", text.encode())

    def _end(self, why: str) -> None:
        """End this process because another one of the job is gone."""
        tell(f"{why}; this process of the job ends too\nhint: {HINT}")
        self._cause = self._cause or why
        self._write_how(" ended by an error")
        self._exit()

    def _exit(self) -> None:
        with contextlib.suppress(Exception):
            deadline = time.monotonic() + (_SOON_SECONDS if self._rank == 0 else 0)
            while time.monotonic() < deadline and len(self._board.look(_LEFT)) <= len(self._others):
                time.sleep(_EVERY_SECONDS / 4)
            if self._rank == 0:
                time.sleep(5 * _LOOK_SECONDS)  # those that wait at their own end read it now
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
