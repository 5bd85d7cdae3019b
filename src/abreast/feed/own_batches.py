"""`source="per-host"`: each process's source gives rows of its own, and the global batch is all of them in rank order.

Before each step the processes agree on its rows. A process whose source has ended takes part without rows until all sources have
ended. So no process is left waiting, and every row counts. Imports no framework.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from abreast.arrays import arrays_of, map_arrays
from abreast.errors import DataError
from abreast.feed.batch import HostBatch, names
from abreast.feed.parts import digest, evenly_spaced
from abreast.staging import Processes

_HINT = (
    'with source="per-host", the source of each process gives the rows of that process only: shard it by rank, as in '
    "`dataset.shard(size, rank)`, a DistributedSampler, or `x[rank::size]`"
)


class OwnBatches:
    """The batches of one process's source, in step with the other processes, which call the same methods.

    `may_repeat`: two processes may give the same rows, because nothing is summed over them. `stored` returns some rows in their
    stored order, or None: a shuffled order hides that two processes have the same data.
    """

    def __init__(
        self, processes: Processes, may_repeat: bool = False, stored: Callable[[], Any] = lambda: None
    ) -> None:
        self.may_repeat = may_repeat
        self._stored = stored
        self._processes = processes
        self._stand_in: HostBatch | None = None
        self._arrays: list[str] = []  # of the first batch
        self._counts: tuple[int, ...] = ()  # of the last step
        self._steps_left = 0  # next steps with the same counts

    def num_batches(self, own: int | None, may_be_empty: bool) -> int | None:
        """The number of steps: the longest source's; None if a source does not know it. Raises `DataError` if one is empty."""
        of_all = self._exchange("counts the batches of its source", own)
        empty = [rank for rank, number in enumerate(of_all) if number == 0]
        if empty and not (may_be_empty and len(empty) == len(of_all)):
            raise DataError(f"the data source of rank {empty[0]} is empty", "give each process at least one row")
        return None if None in of_all else max(of_all)

    def begin(self) -> None:
        """Begin another epoch."""
        self._steps_left = 0

    def agree(self, own: HostBatch | None, error: Exception | None = None, steps: int = 1) -> tuple[int, ...]:
        """The number of rows of each process in the next step, by rank; all 0 if every source has ended.

        `steps`: the number of batches with as many rows, this one included; they need no further message. Raises `error`, and
        `DataError` in the other processes. Raises `DataError` in all processes if the sources do not match.
        """
        if self._steps_left and error is not None:
            raise error
        if not self._steps_left:
            self._counts = self._ask(own, error, steps)
        self._steps_left -= 1
        return self._counts

    def _ask(self, own: HostBatch | None, error: Exception | None, steps: int) -> tuple[int, ...]:
        arrays = None if own is None else _arrays(own)
        said: dict[str, Any] = {
            "rows": 0 if own is None else own.rows,
            "error": None if error is None else _text(error),
            "steps": steps,
        }
        said["arrays"] = None if arrays == self._arrays else arrays
        is_first = not self._arrays
        if is_first and own is not None:
            said["digests"] = [] if self.may_repeat else self._digests(own)
        of_all = self._exchange("reads a batch of its own rows", said)
        if error is not None:
            raise error
        self._raise_errors(of_all)
        if is_first:
            self._check_first(of_all)
            assert own is not None
            self._arrays = of_all[0]["arrays"]
            self._stand_in = replace(own, data=_copied(own.first_rows(1)), rows=1)
        self._check_arrays([each["arrays"] or self._arrays for each in of_all])
        self._steps_left = min((each["steps"] for each in of_all if each["rows"]), default=1)
        return tuple(each["rows"] for each in of_all)

    def _digests(self, first: HostBatch) -> list[int | None]:
        """Checksums of some rows of the first batch, and of some stored ones."""
        stored = self._stored()
        of_first = _digest_of_rows(evenly_spaced(first.data, first.rows))
        return [of_first, None if stored is None else _digest_of_rows(stored)]

    def stand_in(self) -> HostBatch:
        """A row that does not count, for a step in which only other processes have rows."""
        assert self._stand_in is not None
        return self._stand_in

    def _exchange(self, doing: str, own: Any) -> list[Any]:
        return [json.loads(each) for each in self._processes.exchange(doing, json.dumps(own).encode())]

    def _raise_errors(self, of_all: list[Any]) -> None:
        for rank, each in enumerate(of_all):
            if each["error"] is not None:
                raise DataError(
                    f"the data source of rank {rank} failed: {each['error']}", "see the output of that process"
                )

    def _check_first(self, of_all: list[Any]) -> None:
        """Raises `DataError` if a source has no rows, or if two sources give the same rows."""
        seen: tuple[dict[int, int], ...] = {}, {}
        for rank, each in enumerate(of_all):
            if not each["rows"]:
                raise DataError(f"the data source of rank {rank} is empty", "give each process at least one row")
            for known, found in zip(seen, each["digests"], strict=False):
                if found is not None and (first := known.setdefault(found, rank)) != rank:
                    raise DataError(f"ranks {first} and {rank} give the same rows, which would count twice", _HINT)

    def _check_arrays(self, of_all: list[list[str]]) -> None:
        for rank, arrays in enumerate(of_all):
            if arrays != of_all[0]:
                mine, theirs = ", ".join(of_all[0]), ", ".join(arrays)
                raise DataError(
                    f"the sources give different arrays: {mine} on rank 0, and {theirs} on rank {rank}",
                    "give every process the same arrays, with rows of the same shape and type",
                )


def _arrays(batch: HostBatch) -> list[str]:
    """Name, shape of a row, and type of each array."""
    paths = [each for each in batch.structure if not each[1]]
    leaves = arrays_of(batch.data)
    return [
        f"{names((path,))[1:-1]} {tuple(map(int, leaf.shape[1:]))} {_type(leaf)}"
        for path, leaf in zip(paths, leaves, strict=True)
    ]


def _type(leaf: Any) -> str:
    name: str = getattr(leaf.dtype, "name", None) or str(leaf.dtype).removeprefix("torch.")
    return name


def _digest_of_rows(rows: Any) -> int | None:
    """A checksum; None if all rows are equal, such as zeros, which another process may have too."""
    leaves = arrays_of(rows)
    of_each = {digest([leaf[i : i + 1] for leaf in leaves]) for i in range(len(leaves[0]))}
    return None if len(of_each) == 1 else digest(leaves)


def _copied(row: Any) -> Any:
    return map_arrays(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, row)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
