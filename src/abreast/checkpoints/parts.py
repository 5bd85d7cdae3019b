"""Writes the checkpoints of a job: every process writes a part of a large state.

All processes call the same methods in the same order, between two steps. Rank 0 makes the hidden folder, a thread of each process
writes its part beside the training, and when all parts are on the disk, rank 0 gives the checkpoint its name. If a process dies
before, the older checkpoints stay. Not here: one process that writes all (`writer.py`), and the files (`write.py`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.backend.contract import Job
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

_LEAST_ELEMENTS = 1 << 24  # of a part: fewer are written as fast by one process


@dataclass(frozen=True)
class _Pending:
    """A checkpoint that has no name yet, and the rank that writes each variable. Rank 0 writes all else."""

    folder: Path
    snapshot: Snapshot
    ranks: Mapping[str, int]


class PartWriter(Writer):
    """The writer of one `fit` in one process of a job."""

    def __init__(self, policy: Policy, fit: int, job: Job) -> None:
        super().__init__(policy, fit)
        self._job = job
        self._ranks: Mapping[str, int] = {}
        self._pending: _Pending | None = None
        self._own: dict[str, Any] = {}  # what this process has written of it, or its error
        self._is_named = False

    def wanted(self, num_elements: Mapping[str, int]) -> Iterable[str]:
        self._ranks = ranks_of(num_elements, self._job.size)
        return [name for name, rank in self._ranks.items() if rank == self._job.rank]

    def write(self, name: str, snapshot: Snapshot) -> bool:
        self._finish()
        return self._is_begun(name, snapshot, GOES_ON)

    def write_now(self, name: str, snapshot: Snapshot) -> bool:
        self._finish()
        if not self._is_begun(name, snapshot):
            return False
        self._finish("")
        return self._job.exchange("names a checkpoint", b"named" if self._is_named else b"")[0] != b""

    def settle(self, before: str = GOES_ON) -> None:
        """Let rank 0 give the checkpoint its name when all processes have written their parts of it."""
        if self._pending is None:
            return
        self._wait()
        written = self._job.exchange("has written its part of a checkpoint", json.dumps(self._own).encode())
        pending, self._pending = self._pending, None
        if self._job.rank == 0:
            self._begin(lambda: self._told(lambda: self._name(pending, [json.loads(each) for each in written]), before))

    def close(self) -> None:
        super().close()
        if self._pending is not None and self._job.rank == 0:  # an error has ended the fit
            abandon_checkpoint(self._pending.folder)

    def _finish(self, before: str = GOES_ON) -> None:
        self.settle(before)
        self._wait()

    def _is_begun(self, name: str, snapshot: Snapshot, before: str = "") -> bool:
        """Write in a thread of each process; False if rank 0 cannot make the folder."""
        rank, ranks = self._job.rank, self._ranks
        own = {each: array for each, array in snapshot.tensors.items() if ranks.get(each, 0) == rank}
        sizes = self._job.exchange(
            "sums the bytes of a checkpoint", str(sum(each.nbytes for each in own.values())).encode()
        )
        is_made = rank or self._told(lambda: self._make(name, sum(map(int, sizes))), before)
        if not self._job.exchange("begins a checkpoint", b"begun" if is_made else b"")[0]:
            return False
        folder = part_of(Path(self._policy.folder), name)
        self._pending, self._is_named, self._spare = _Pending(folder, snapshot, ranks), False, own
        self._begin(lambda: self._write_part(folder, own, 1 + max(ranks.values(), default=0)))
        return True

    def _make(self, name: str, num_bytes: int) -> None:
        folder = Path(self._policy.folder)
        make_checkpoint_folder(folder)
        begin_checkpoint(folder, name, num_bytes)

    def _write_part(self, folder: Path, own: Mapping[str, np.ndarray], count: int) -> None:
        try:
            self._own = write_tensors(folder, own, self._job.rank, count) if self._job.rank < count else {}
        except CheckpointError as error:
            self._own = {"error": [f"rank {self._job.rank}: {error.message}", error.hint]}
        except BaseException as error:
            self._error = error

    def _name(self, pending: _Pending, parts: list[dict[str, Any]]) -> None:
        """Raises the error of a part if there is one."""
        try:
            if errors := [part["error"] for part in parts if "error" in part]:
                raise CheckpointError(*errors[0])
            rest = [name for name in pending.snapshot.tensors if name not in pending.ranks]
            written = [part for part in parts if part]
            path = commit_checkpoint(pending.folder, written, pending.snapshot.values, [*pending.ranks, *rest])
        except BaseException:
            abandon_checkpoint(pending.folder)
            raise
        self._is_named = True
        self._remove_old(path.name)


def ranks_of(num_elements: Mapping[str, int], size: int) -> dict[str, int]:
    """Which of `size` processes writes each variable: neighbours in their order, about as many elements each."""
    total = sum(num_elements.values())
    count = max(1, min(size, total // _LEAST_ELEMENTS))
    ends = itertools.accumulate(num_elements.values())
    middles = [end - number / 2 for end, number in zip(ends, num_elements.values(), strict=True)]
    shares = [min(count - 1, int(middle * count / total)) if total else 0 for middle in middles]
    ranks = {share: rank for rank, share in enumerate(sorted({*shares}))}  # none writes nothing
    return {name: ranks[share] for name, share in zip(num_elements, shares, strict=True)}
