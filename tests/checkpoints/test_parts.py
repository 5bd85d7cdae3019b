"""A checkpoint of a job: every process writes a part of a large state, and it is whole or not there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.checkpoints import parts
from abreast.checkpoints.folder import FolderLock, checkpoint_names
from abreast.checkpoints.names import name_of
from abreast.checkpoints.parts import PartWriter, ranks_of
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import write_tensors
from abreast.errors import CheckpointError

_SIZE = 3
_VARIABLES = {f"model/{i}": np.full(10 + i, i, "float32") for i in range(7)}


class Board:
    """Messages of threads, one per rank."""

    def __init__(self, size: int) -> None:
        self._messages: list[tuple[str, bytes]] = [("", b"")] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def exchange(self, rank: int, doing: str, own: bytes) -> list[bytes]:
        self._messages[rank] = doing, own
        self._barrier.wait()
        found = list(self._messages)
        self._barrier.wait()
        assert {each for each, _ in found} == {doing}
        return [message for _, message in found]


class StandInJob:
    """One rank's view of a job of threads."""

    def __init__(self, board: Board, rank: int) -> None:
        self.rank, self.size, self._board = rank, _SIZE, board

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        return self._board.exchange(self.rank, doing, own)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_LEAST_ELEMENTS", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with FolderLock(tmp_path):
        yield tmp_path


def in_all_ranks(folder: Path, work: Callable[[PartWriter], Any], keep: int = 3) -> list[Any]:
    """What `work` returns with the writer of each rank."""
    board = Board(_SIZE)
    writers: list[Any] = [
        PartWriter(Policy(folder, keep=keep), 1, StandInJob(board, rank))  # type: ignore[arg-type]
        for rank in range(_SIZE)
    ]
    with ThreadPoolExecutor(_SIZE) as pool:
        return list(pool.map(work, writers))


def state(writer: PartWriter, step: int = 0) -> Snapshot:
    """What a rank has read of a state: its variables, all else, and the plain values."""
    wanted = writer.wanted({name: array.size for name, array in _VARIABLES.items()})
    tensors = {name: _VARIABLES[name] for name in wanted} | {
        "generators/state": np.arange(5),
        "model/3": _VARIABLES["model/3"],
    }
    return Snapshot(tensors, {"step": step})


def test_each_process_writes_a_part_and_all_read_the_whole(folder: Path) -> None:
    assert in_all_ranks(folder, lambda writer: writer.write_now("fit", state(writer, 4))) == [True] * _SIZE
    assert sorted(each.name for each in (folder / "fit").iterdir()) == [
        "manifest.json",
        *(f"tensors-0000{rank}-of-0000{_SIZE}.safetensors" for rank in range(_SIZE)),
    ]
    found = read_checkpoint(folder / "fit")
    assert list(found.tensors) == [*_VARIABLES, "generators/state"]
    for name, value in _VARIABLES.items():
        np.testing.assert_array_equal(found.tensors[name], value)
    assert found.values == {"step": 4}


def test_a_checkpoint_gets_its_name_when_all_have_written(folder: Path) -> None:
    def work(writer: PartWriter) -> tuple[list[str], list[str]]:
        writer.write("fit", state(writer))
        writer._wait()
        before = checkpoint_names(folder)
        assert writer.settle() and not writer.settle()
        writer._wait()
        return before, checkpoint_names(folder) if writer._job.rank == 0 else ["fit"]

    assert in_all_ranks(folder, work) == [([], ["fit"])] * _SIZE


def test_the_next_one_waits_for_the_one_before(folder: Path) -> None:
    names = [name_of(1, 0, step) for step in range(5)]

    def work(writer: PartWriter) -> bool:
        for step in range(4):
            writer.write(names[step], state(writer, step))
        return writer.write_now(names[4], state(writer, 4))

    assert in_all_ranks(folder, work, keep=2) == [True] * _SIZE
    assert checkpoint_names(folder) == names[3:]
    assert read_checkpoint(folder / names[3]).values == {"step": 3}


def test_a_part_that_cannot_be_written_leaves_the_older_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_all_ranks(folder, lambda writer: writer.write_now("fit1", state(writer)))
    plain = write_tensors

    def full(part: Path, tensors: Any, index: int, count: int) -> Any:
        if index == 1:
            raise CheckpointError("no space left", "make room")
        return plain(part, tensors, index, count)

    monkeypatch.setattr(parts, "write_tensors", full)
    assert in_all_ranks(folder, lambda writer: writer.write_now("fit2", state(writer))) == [False] * _SIZE
    assert "rank 1: no space left\nhint: make room" in capsys.readouterr().err
    assert [each.name for each in folder.iterdir() if each.is_dir()] == ["fit1"]


def test_without_room_nothing_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("abreast.checkpoints.files.CheckpointFiles.free_bytes", lambda *_: 10)
    assert in_all_ranks(folder, lambda writer: writer.write_now("fit", state(writer))) == [False] * _SIZE
    assert "the disk has 10 free" in capsys.readouterr().err
    assert [each.name for each in folder.iterdir() if each.is_dir()] == []


def test_parts_that_do_not_fit_together_are_no_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work(writer: PartWriter) -> bool:
        own = state(writer)
        tensors = {f"another {name}": array for name, array in own.tensors.items()} if writer._job.rank else own.tensors
        writer._ranks = (
            {f"another {name}": rank for name, rank in writer._ranks.items()} if writer._job.rank else writer._ranks
        )
        return writer.write_now("fit", Snapshot(tensors, {}))

    assert in_all_ranks(folder, work) == [False] * _SIZE
    assert "the parts of a checkpoint do not fit together: another model/" in capsys.readouterr().err
    assert checkpoint_names(folder) == []


def test_an_end_before_all_have_written_leaves_the_older_checkpoint(folder: Path) -> None:
    def work(writer: PartWriter) -> None:
        writer.write_now("fit1", state(writer))
        writer.write("fit2", state(writer))
        writer.close()

    in_all_ranks(folder, work)
    assert checkpoint_names(folder) == ["fit1"]


def test_a_small_state_is_written_by_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_LEAST_ELEMENTS", 10**6)
    in_all_ranks(folder, lambda writer: writer.write_now("fit", state(writer)))
    assert [each.name for each in (folder / "fit").glob("*.safetensors")] == ["tensors-00000-of-00001.safetensors"]
    assert list(read_checkpoint(folder / "fit").tensors) == [*_VARIABLES, "generators/state"]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "sizes", [[], [0], [5], [10**9, 1, 1], [1, 1, 10**9], [10] * 50, [0, 0, 0]], ids=lambda sizes: str(sizes[:3])
)
def test_shares_are_neighbours_and_no_process_between_has_none(sizes: list[int], size: int) -> None:
    ranks = list(ranks_of({str(i): number for i, number in enumerate(sizes)}, size).values())
    assert ranks == sorted(ranks)
    assert {*ranks} == {*range(max(ranks, default=-1) + 1)}
    assert max(ranks, default=0) < size
    if sizes == [10] * 50:
        counts = [ranks.count(rank) for rank in range(size)]
        assert max(counts) - min(counts) <= 1
