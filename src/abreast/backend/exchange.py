"""Messages between the processes of a launcher, in one order, over a board that a framework provides.

Not here: comparisons of the messages (`agreement.py`), and how a process notices that another one has left (`leaving.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from abreast.backend.leaving import HINT, Leaving
from abreast.errors import AbreastError, WorkerError
from abreast.hosts.meeting import Meeting

_LOOK_SECONDS = 1.0
_END = b"\n"  # ends the part of a message that names the process's activity


class Board(Protocol):
    """Values under keys that each process of a job writes and all read. Any thread may call the methods.

    A method raises an exception of any type if the board cannot be reached.
    """

    def write(self, key: str, value: bytes) -> None: ...

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        """The values under these keys; None if one is still missing after about `seconds`."""
        ...

    def erase(self, key: str) -> None: ...

    def close(self) -> None:
        """Release the board, after all processes have written their last message."""
        ...


class Exchange:
    """The messages of one job. Every process makes the same exchanges in the same order, from the thread of its call."""

    num_devices: Sequence[int]
    """The number of devices of each process. Each backend sets it."""

    def __init__(self, meeting: Meeting, board: Callable[[], Board]) -> None:
        """Watch for the end of any process from now on, also while `board` connects this one to the others."""
        self.rank, self.size = meeting.member.rank, meeting.member.size
        self.num_steps = self.num_messages = 0
        self.leaving = Leaving(meeting, lambda: (self.num_steps, self.num_messages))
        with self.leaving.waiting():
            self._board = board()
        self.leaving.close = self._board.close

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        """The messages of all ranks, in rank order. Raises `WorkerError` if another process is `doing` something else."""
        self.num_messages += 1
        number = self.num_messages
        with self.leaving.waiting(), self._naming():
            self._board.write(_key(number, self.rank), doing.encode() + _END + own)
            found = [message.split(_END, 1) for message in self._messages(number)]
            if number > 1:  # all processes have written this message, so they have read the one before
                self._board.erase(_key(number - 1, self.rank))
        rank = next((rank for rank, (theirs, _) in enumerate(found) if theirs != found[0][0]), None)
        if rank is not None:
            raise _apart(f"rank 0 {found[0][0].decode()}, and rank {rank} {found[rank][0].decode()}")
        return [message for _, message in found]

    def _messages(self, number: int) -> list[bytes]:
        """The messages of all ranks; short waits let Ctrl+C through. Raises `WorkerError` if one can never arrive."""
        keys = [_key(number, rank) for rank in range(self.size)]
        known = False
        while True:
            found = self._board.read(keys, _LOOK_SECONDS)
            if found is not None:
                return found
            if known:  # known before this read, which included all messages of the process that is gone
                self.leaving.raise_if_gone()
            known = self.leaving.is_anybody_gone()
            for rank in range(self.size):
                steps, messages = self.leaving.progress(rank)
                if (
                    steps > self.num_steps and messages < number
                ):  # that step waits for this process, and this one for it
                    raise _apart(f"rank {rank} makes a step that rank {self.rank} does not make")

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Inside, if the board cannot be reached, raise a `WorkerError` that names the process that is gone."""
        try:
            yield
        except AbreastError:
            raise
        except Exception as error:  # any exception of the framework
            why = str(error).partition("\n")[0]
            raise WorkerError(f"{self.leaving.who_is_gone()}: {why}", HINT) from error


def _key(number: int, rank: int) -> str:
    return f"abreast/{number}/{rank}"


def _apart(what: str) -> WorkerError:
    return WorkerError(
        f"the processes do different things: {what}",
        "make the same calls on the same batches in every process: none only where `is_main_process()` is true, and stop "
        "all of them at the same epoch",
    )
