"""The end of a process in a job of several: a normal end waits for the others, and the failure of any process soon ends all.

A process that waits for one that is gone may wait for ever. JAX also waits at its exit for all processes, and ends a process by
SIGABRT, with C++ frames, when another one is gone. So each process announces how it ends, and learns how the others end.
`hosts/watch.py` carries these messages, and reports processes that died or are silent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from abreast import asked_to_end
from abreast.errors import WorkerError
from abreast.hosts.meeting import Meeting
from abreast.hosts.watch import Watch
from abreast.limits import hang_seconds
from abreast.stderr import tell

_WELL = " ended"
_FAILED = " ended by an error"  # and by which one; its text may say anything
_ASKED = " was asked to end by "  # and by which signal: a new start of the job continues the training
_KNOWN_SECONDS = 10  # limit to learn which process is gone after an error of the framework
_RAISE_SECONDS = 3  # limit for a call to raise after a process is gone; a thread that still waits then waits for ever
_BETWEEN_SECONDS = 5  # limit for a process outside a call to begin one, and to raise there
_WELL_SECONDS = 12  # `_RAISE_SECONDS` if the other process ended normally: it may have done its part of the call
_SOON_SECONDS = 6  # time that rank 0 gives the others to end by themselves: its own end lets JAX abort them
HINT = "the first error is in the output of the process that ended first"


class Leaving:
    """The end of this process in its job. `progress` returns the numbers of steps and messages that this process has begun.

    `close` is called at a normal end, after all processes have ended normally. By default it does nothing.
    """

    def __init__(self, meeting: Meeting, progress: Callable[[], tuple[int, int]]) -> None:
        self.close: Callable[[], None] = lambda: None
        self._rank, self._process = meeting.member.rank, os.getpid()
        self._waits = False  # whether this process waits for a message
        self._since: float | None = None  # since when this process waits for one that is gone
        self._cause: str | None = None  # the end of another process that ends this one
        self._ends = False
        self.in_call = False  # all processes make each call together, so none may leave during it
        self._watch = Watch(meeting, hang_seconds(), lambda: "{} {}".format(*progress()), self._end_if_one_is_gone)
        self._watch.begin()
        atexit.register(self._leave)  # runs before JAX's own exit function, which waits too

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, this process waits for messages: if a sender is gone, this process soon ends."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def progress(self, rank: int) -> tuple[int, int]:
        """The numbers of steps and messages that a process had begun at its last report."""
        steps, _, messages = self._watch.notes.get(rank, "0 0").partition(" ")
        return int(steps), int(messages)

    def who_is_gone(self) -> str:
        """A process that has ended, or is silent; waits until that is known. `SystemExit` if a signal asked it to end."""
        self._watch.wait(lambda: self._gone() is not None, _KNOWN_SECONDS)
        return self._found(self._gone()) or "another process has ended"

    def is_anybody_gone(self) -> bool:
        return self._gone() is not None

    def raise_if_gone(self) -> None:
        """Raise `WorkerError` if a process is gone, as no call can end without it; `SystemExit` if a signal asked it to end."""
        gone = self._found(self._gone())
        if gone is not None:
            raise WorkerError(_in_a_call(gone), HINT)

    def _found(self, gone: str | None) -> str | None:
        """Note which process is gone. Raises `SystemExit` if a signal asked it to end: this process then ends too."""
        if (cause := self._cause or gone) is None:
            return None
        self._note(cause)
        if _signal_in(cause):
            _tell_end(cause)
            raise SystemExit(asked_to_end.EXIT_CODE)
        return cause

    def _note(self, cause: str) -> None:
        """Note the end of another process that ends this one; if a signal asked for that end, it asks for this one, too."""
        self._cause = self._cause or cause
        if signal := _signal_in(self._cause):
            asked_to_end.note(signal)

    def failed(self, why: str) -> None:
        """Tell the others at once why this process cannot continue."""
        self._announce_end(f"{_FAILED}: {why}")

    def _gone(self) -> str | None:
        """A text on the first process known to be gone, and how it ended; None if all are there."""
        return self._cause or self._failed_process() or next(iter(self._last_words()), None)

    def _failed_process(self) -> str | None:
        """A text on a process that died, is silent or failed, so that this one must fail too; None without one."""
        return self._watch.lost() or next((words for words in self._last_words() if not _is_well(words)), None)

    def _last_words(self) -> list[str]:
        return [words for rank, words in self._watch.left().items() if rank != self._rank]

    def _leave(self) -> None:
        if os.getpid() != self._process:  # a fork of it
            return
        failed = getattr(sys, "last_value", None) is not None  # Python sets it to an uncaught exception
        asked = asked_to_end.by()
        self._announce_end(_FAILED if failed else f"{_ASKED}{asked}" if asked else _WELL)
        if failed:
            self._exit()
        self._watch.wait(lambda: self._failed_process() is not None or not self._watch.here())
        if (failed_process := self._failed_process()) is not None:
            self._report(failed_process)
            self._exit()
        self._ends = True
        self.close()
        self._watch.close()

    def _end_if_one_is_gone(self) -> None:
        """End this process, from another thread, if another one is gone and no call has raised that in time."""
        waits = self.in_call or self._waits  # a wait for a process that is gone may last for ever
        gone = self._gone() if waits else self._lost_between()
        if gone is None or self._ends:
            self._since = None
            return
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since > _seconds_left(gone, waits):
            self._report(_in_a_call(gone))
            threading.Thread(target=self._exit, name="abreast-exit", daemon=True).start()

    def _lost_between(self) -> str | None:
        """A process lost while this one is in no call; None if a call has already raised an error about it."""
        return self._watch.lost() if self._cause is None else None

    def _report(self, why: str) -> None:
        self._ends = True
        self._note(why)
        _tell_end(why)

    def _announce_end(self, how: str) -> None:
        cause = None if self._cause is None else _in_a_call(self._cause)
        self._watch.leave(cause or f"{self._watch.who(self._rank)}{how}")

    def _exit(self) -> None:
        self._ends = True
        self._announce_end(_FAILED)
        self._watch.flush()
        if self._rank == 0:
            self._watch.wait(lambda: not self._watch.here(), _SOON_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._exit_code())

    def _exit_code(self) -> int:
        if (error := getattr(sys, "last_value", None)) is not None:
            return 130 if isinstance(error, KeyboardInterrupt) else 1
        return asked_to_end.EXIT_CODE if asked_to_end.by() else 1


def _tell_end(cause: str) -> None:
    tell(f"{cause}; this process of the job ends too" + ("" if _signal_in(cause) else f"\nhint: {HINT}"))


def _ended_normally(words: str) -> bool:
    return words.endswith(_WELL) and _FAILED not in words


def _signal_in(words: str) -> str:
    """The signal that asked a process to end, from the text on its end; empty without one."""
    return words.partition(_FAILED)[0].partition(_ASKED)[2]


def _is_well(words: str) -> bool:
    """Whether a process ended as it should; if a signal asks a job to end, all of its processes end so."""
    return _ended_normally(words) or (_signal_in(words) != "" and asked_to_end.by() is not None)


def _seconds_left(gone: str, waits: bool) -> float:
    if not waits:
        return _BETWEEN_SECONDS
    return _WELL_SECONDS if _is_well(gone) else _RAISE_SECONDS


def _in_a_call(gone: str) -> str:
    return f"{gone} while this process waited for it in a call" if _ended_normally(gone) else gone
