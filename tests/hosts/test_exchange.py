"""A message that cannot be written or read names the process that is gone."""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from abreast import asked_to_end
from abreast.backend import leaving
from abreast.backend.exchange import Exchange
from abreast.errors import LaunchError, WorkerError


class Board:
    """It fails at the calls whose names it is given."""

    def __init__(self, *fails: str) -> None:
        self._fails = fails

    def _do(self, what: str) -> None:
        if what in self._fails:
            raise ConnectionResetError("Connection reset by peer\nC++ frames")

    def write(self, key: str, value: bytes) -> None:
        self._do("write")

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        self._do("read")
        return [b"begins\nmine", b"begins\ntheirs"]

    def erase(self, key: str) -> None:
        self._do("erase")

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _waiting() -> Iterator[None]:
    yield


def exchange(board: Board) -> Exchange:
    made: Any = object.__new__(Exchange)  # without a process that watches
    made.rank, made.size, made.num_steps, made.num_messages, made._board = 0, 2, 0, 1, board
    made.leaving = SimpleNamespace(waiting=_waiting, who_is_gone=lambda: "rank 1 on host b has died")
    return made  # type: ignore[no-any-return]


def test_all_processes_get_the_messages_of_all() -> None:
    assert exchange(Board()).exchange("begins", b"mine") == [b"mine", b"theirs"]


@pytest.mark.parametrize("fails", ["write", "read", "erase"])
def test_a_board_that_fails_names_who_is_gone(fails: str) -> None:
    with pytest.raises(WorkerError, match=r"^rank 1 on host b has died: Connection reset by peer\n"):
        exchange(Board(fails)).exchange("begins", b"mine")


def test_a_process_whose_script_goes_on_without_a_board_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ends: list[Callable[[], None]] = []
    watch: dict[str, Any] = {name: lambda *arguments: None for name in ("begin", "wait", "lost", "close")}
    watch |= {"left": dict, "leave": said.append, "who": lambda rank: f"rank {rank}"}
    monkeypatch.setattr(leaving, "Watch", lambda *arguments: SimpleNamespace(**watch))
    monkeypatch.setattr(atexit, "register", ends.append)
    monkeypatch.delattr(sys, "last_value", raising=False)

    def board() -> Board:
        raise LaunchError("rank 1 did not connect", "")

    meeting: Any = SimpleNamespace(member=SimpleNamespace(rank=0, size=2))
    with pytest.raises(LaunchError):
        Exchange(meeting, board)
    ends[0]()
    assert said == ["rank 0 ended"]


@pytest.mark.parametrize(
    ("words", "is_well"),
    [
        ("rank 1 ended", True),
        ("rank 1 ended by an error: Saves: the stream ended", False),
        ("rank 1 ended by an error: the job was asked to end by SIGTERM", False),
        ("rank 1 was asked to end by SIGTERM", True),
        ("rank 1 has died", False),
    ],
)
def test_the_text_of_an_error_does_not_decide_how_a_process_ended(
    words: str, is_well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_to_end, "by", lambda: "SIGTERM")
    assert leaving._is_well(words) is is_well
