"""How processes leave a job of several: a good end waits for the others, and a bad one of any process soon ends all.

JAX alone waits at the exit until all processes are there, also for one that ended by an error; the others are then in the middle
of a step and wait for that one. And it ends a process by SIGABRT, with C++ frames, when another is gone. So each process writes
down that it lives, and how it ends, and reads the same of the others.
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
from typing import Any

from abreast.stderr import tell
from abreast.workers.limits import hang_seconds

_LEFT, _ALIVE = "abreast/left/", "abreast/alive/"
_EVERY_SECONDS = 1
_SOON_SECONDS = 6  # that rank 0, whose end lets JAX abort the others, leaves them to end by themselves
_DEAD_SECONDS = 6  # silence after which a process whose connections have closed counts as the dead one
HINT = "the first error is in the output of the process that ended first"
_FOR_EVER_MS = 7 * 24 * 3600 * 1000  # `Leaving` notices who is gone, so an answer may take as long as it takes


class Leaving:
    """The end of this process in its job. `client` is JAX's connection to rank 0.

    `progress` returns the numbers of steps and messages that this process has begun.
    """

    def __init__(self, client: Any, rank: int, size: int, progress: Callable[[], tuple[int, int]]) -> None:
        self._client = client
        self._progress = progress
        self._rank = rank
        self._others = [each for each in range(size) if each != rank]
        self._heard: dict[int, tuple[str, float]] = {}  # of each rank, what it wrote last, and since when
        self._failed = False
        self._is_leaving = False
        self._hang_seconds = hang_seconds()
        self._waits = False  # for a message of another process
        self.in_call = False  # every call is one of all processes, so none may leave during it
        atexit.register(self._leave)  # runs before that of JAX, which was registered first
        self._notice_errors()
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
        while time.monotonic() < deadline:
            if (left := self._left()) is not None:
                return left
            if (silent := self._silent(_DEAD_SECONDS)) is not None:
                return f"{silent} has died"
            time.sleep(_EVERY_SECONDS / 4)
        return "another process has ended"

    def _notice_errors(self) -> None:
        plain = sys.excepthook

        def noticing(*raised: Any) -> None:
            self._failed = True
            plain(*raised)

        sys.excepthook = noticing

    def _leave(self) -> None:
        self._write_how("ended by an error" if self._failed else "ended")
        if self._failed:
            self._exit()
        for rank in self._others:
            try:
                how = self._client.blocking_key_value_get(f"{_LEFT}{rank}", _FOR_EVER_MS)
            except Exception:  # JAX raises several
                self._end("rank 0 cannot be reached")
            if "error" in how:
                self._end(how)
        self._is_leaving = True

    def _watch(self) -> None:
        """End this process when another one is silent, or has left while this one is in a call, which would wait for ever."""
        count, unreachable, stuck = 0, 0, 0
        while not self._is_leaving:
            count += 1
            try:
                self._write_alive(count)
                self._hear()
                unreachable = 0
            except Exception:  # JAX raises several
                unreachable += 1
            left = self._left() if self.in_call or self._waits else None
            stuck = stuck + 1 if left is not None else 0
            if self._is_leaving:
                return
            if unreachable > _DEAD_SECONDS:
                self._end("rank 0 cannot be reached")
            if left is not None and stuck > (_SOON_SECONDS / 2 if "error" in left else 2 * _DEAD_SECONDS):
                self._end(f"{left} while this process waited for it in a call")
            if (silent := self._silent(self._hang_seconds)) is not None:
                self._end(f"{silent} has been silent for {self._hang_seconds:g} s (ABREAST_HANG_SECONDS)")
            time.sleep(_EVERY_SECONDS)

    def _write_alive(self, count: int) -> None:
        steps, messages = self._progress()
        text = f"{count} {steps} {messages} {platform.node()}"
        self._client.key_value_set(f"{_ALIVE}{self._rank}", text, allow_overwrite=True)

    def _hear(self) -> None:
        now = time.monotonic()
        for key, text in self._client.key_value_dir_get(_ALIVE):
            rank = int(key.removeprefix(_ALIVE))
            if self._heard.get(rank, ("", 0.0))[0] != text:
                self._heard[rank] = (text, now)

    def _silent(self, seconds: float) -> str | None:
        now = time.monotonic()
        for rank in self._others:
            text, since = self._heard.get(rank, ("", now))
            if now - since > seconds:
                return f"rank {rank} on host {text.split(' ')[-1]}"
        return None

    def _left(self) -> str | None:
        with contextlib.suppress(Exception):
            for _, how in self._client.key_value_dir_get(_LEFT):
                return str(how)
        return None

    def _write_how(self, how: str) -> None:
        with contextlib.suppress(Exception):  # rank 0 may be gone
            self._client.key_value_set(f"{_LEFT}{self._rank}", f"rank {self._rank} on host {platform.node()} {how}")

    def _end(self, why: str) -> None:
        """End this process because another one of the job is gone."""
        tell(f"{why}; this process of the job ends too\nhint: {HINT}")
        self._write_how("ended by an error")
        self._exit()

    def _exit(self) -> None:
        with contextlib.suppress(Exception):
            deadline = time.monotonic() + (_SOON_SECONDS if self._rank == 0 else 0)
            while time.monotonic() < deadline and len(self._client.key_value_dir_get(_LEFT)) <= len(self._others):
                time.sleep(_EVERY_SECONDS / 4)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
