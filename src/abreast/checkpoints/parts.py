"""Writes the checkpoints of a job: every process writes a part of a large state; rank 0 alone writes a small one.

All processes call the same methods in the same order, between two steps. For a large state, rank 0 makes the hidden folder, and a
thread of each process writes its part during the training. When the processes next ask one another and all parts are on disk,
rank 0 gives the checkpoint its name. If a process dies before that, the older checkpoints stay. Not here: one process that writes
everything (`writer.py`), and the files (`write.py`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.backend.contract import Job
from abreast.checkpoints.files import write_errors
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import (
    abandon_checkpoint,
    begin_checkpoint,
    commit_checkpoint,
    make_checkpoint_folder,
    part_of,
    write_tensors,
)
from abreast.checkpoints.writer import GOES_ON, Writer
from abreast.errors import CheckpointError
from abreast.stderr import tell

_LEAST_ELEMENTS = 1 << 24  # smallest mean size of a part: one process writes fewer elements just as fast


@dataclass(frozen=True)
class _Pending:
    """A checkpoint without a name yet, and the rank that writes each variable. Rank 0 writes all other data."""

    folder: Path
    snapshot: Snapshot
    ranks: Mapping[str, int]


class PartWriter(Writer):
    """The writer of one `fit` in one process of a job."""

    def __init__(self, policy: Policy, fit: int, job: Job) -> None:
        super().__init__(policy, fit)
        self._job = job
        self._folder = Path(policy.folder)
        self._ranks: Mapping[str, int] = {}
        self._pending: _Pending | None = None
        self._own: dict[str, Any] = {}  # description of the part that this process wrote
        self._problem: tuple[str, str | None] | None = None  # the error if it could not
        self._is_named = False

    def wanted(self, num_elements: Mapping[str, int]) -> Iterable[str]:
        self._ranks = ranks_of(num_elements, self._job.size)
        return [name for name, rank in self._ranks.items() if rank == self._job.rank]

    def write(self, name: str, snapshot: Snapshot) -> bool:
        self._finish()
        if self._num_parts > 1:
            return self._is_begun(name, snapshot, GOES_ON)
        return self._job.rank > 0 or super().write(name, snapshot)

    def write_now(self, name: str, snapshot: Snapshot) -> bool:
        self._finish()
        if self._num_parts > 1:
            if self._is_begun(name, snapshot):
                self._finish("")
        else:
            self._is_named = self._job.rank == 0 and super().write_now(name, snapshot)
        return self._is_so_on_rank_0("names a checkpoint", self._is_named)

    def settle(self, before: str = GOES_ON) -> bool:
        """Make rank 0 name the checkpoint that all processes have written; False if there is none."""
        if self._pending is None:
            return False
        self._wait()
        answers = self._job.exchange("has written its part of a checkpoint", json.dumps(self._problem).encode())
        pending, self._pending = self._pending, None
        problem = next((found for each in answers if (found := json.loads(each))), None)
        if self._job.rank == 0:
            self._begin(lambda: self._attempt(lambda: self._name(pending, problem), before))
        return True

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._pending is not None and self._job.rank == 0:  # an error has ended the fit
                abandon_checkpoint(self._pending.folder)

    @property
    def _num_parts(self) -> int:
        return 1 + max(self._ranks.values(), default=0)

    def _finish(self, before: str = GOES_ON) -> None:
        self.settle(before)
        self._wait()

    def _is_so_on_rank_0(self, doing: str, is_so: bool) -> bool:
        return self._job.exchange(doing, b"yes" if is_so else b"")[0] != b""

    def _is_begun(self, name: str, snapshot: Snapshot, before: str = "") -> bool:
        """Start to write in a thread of each process; False if rank 0 cannot make the folder."""
        rank, ranks = self._job.rank, self._ranks
        own = {each: array for each, array in snapshot.tensors.items() if ranks.get(each, 0) == rank}
        num_bytes = str(sum(each.nbytes for each in own.values())).encode()
        sizes = self._job.exchange("sums the bytes of a checkpoint", num_bytes)
        is_made = rank == 0 and self._is_made(name, sum(map(int, sizes)), before)
        self._is_named = False
        if not self._is_so_on_rank_0("begins a checkpoint", is_made):
            return False
        folder = part_of(self._folder, name)
        self._pending, self._spare = _Pending(folder, snapshot, ranks), own
        self._begin(lambda: self._write_part(folder, own, self._num_parts))
        return True

    def _is_made(self, name: str, num_bytes: int, before: str) -> bool:
        try:
            make_checkpoint_folder(self._folder)
            begin_checkpoint(self._folder, name, num_bytes)
        except CheckpointError as error:
            tell(f"{before}{error}")
            return False
        return True

    def _write_part(self, folder: Path, own: Mapping[str, np.ndarray], count: int) -> None:
        rank, self._problem = self._job.rank, None
        try:
            if rank < count:
                self._own = write_tensors(folder, own, rank, count)
            if 0 < rank < count:
                with write_errors(self._folder):
                    _note(folder, rank).write_text(json.dumps(self._own))
        except CheckpointError as error:
            self._problem = f"rank {rank}: {error.message}", error.hint
        except BaseException as error:
            self._error = error

    def _name(self, pending: _Pending, problem: tuple[str, str | None] | None) -> None:
        """Commit the checkpoint under its name, or abandon it and raise the error of a process."""
        try:
            if problem is not None:
                raise CheckpointError(*problem)
            written = [self._own, *self._notes(pending)]
            rest = [name for name in pending.snapshot.tensors if name not in pending.ranks]
            path = commit_checkpoint(pending.folder, written, pending.snapshot.values, [*pending.ranks, *rest])
        except BaseException:
            abandon_checkpoint(pending.folder)
            raise
        self._is_named = True
        self._remove_old(path.name)

    def _notes(self, pending: _Pending) -> Iterator[dict[str, Any]]:
        """Descriptions of the other processes' parts, from small files beside the parts; removes these files."""
        for rank in range(1, 1 + max(pending.ranks.values())):
            note = _note(pending.folder, rank)
            with write_errors(self._folder):
                yield json.loads(note.read_text())
                note.unlink()


def _note(folder: Path, rank: int) -> Path:
    return folder / f"part-{rank:05d}.json"


def ranks_of(num_elements: Mapping[str, int], size: int) -> dict[str, int]:
    """The rank, out of `size` processes, that writes each variable: consecutive variables, about equally many elements each."""
    total = sum(num_elements.values())
    count = max(1, min(size, total // _LEAST_ELEMENTS))
    ends = itertools.accumulate(num_elements.values())
    middles = [end - number / 2 for end, number in zip(ends, num_elements.values(), strict=True)]
    shares = [min(count - 1, int(middle * count / total)) if total else 0 for middle in middles]
    ranks = {share: rank for rank, share in enumerate(sorted({*shares}))}  # so no rank is without a part
    return {name: ranks[share] for name, share in zip(num_elements, shares, strict=True)}
