"""The lookups of embeddings in steps that run eagerly: whether the replicas look up their own rows, or all the same numbers.

One step may not show it: rows may be equal by chance, and numbers that are not those of rows may look like it. So a lookup's
earlier steps count, and a warning says what remains unclear. Not here: what becomes of the gradients (`slices.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from abreast import exact
from abreast.backend.tensorflow.processes import Processes

_UNCLEAR_STEPS = 4


@dataclass
class _Lookup:
    """What the steps have shown of one lookup. `lengths`: by rows of a replica, the length of indices that look like rows'."""

    is_of_rows: bool = False  # replicas had other indices
    indices: int | None = None  # a checksum of those that all replicas had, and that are not alike for all rows
    lengths: dict[int, int] = field(default_factory=dict)
    unclear: int = 0  # steps in which the indices looked like those of rows that are all alike

    def is_constant(self) -> bool:
        """Whether indices that look like those of equal rows do not follow the number of rows."""
        return any(
            length * rows != other * more
            for rows, other in self.lengths.items()
            for more, length in self.lengths.items()
        )


class EagerIndices:
    """Tells lookups that are the same on every replica from those of each replica's rows. Warns once where it cannot."""

    def __init__(self, model: Any, processes: Processes | None) -> None:
        """`processes`: those of other replicas, which decide alike."""
        self._model, self._processes = model, processes
        self._lookups: dict[
            tuple[int, int, int], _Lookup
        ] = {}  # by gradient, number of lookups of the table, and lookup
        self.begin(0)

    def begin(self, rows: int) -> None:
        """Begin a step with `rows` rows on each replica; 0 if they have different numbers."""
        self._rows, self._gradients = rows, 0

    def are_same(self, parts: Sequence[Sequence[Any]]) -> list[bool]:
        """Whether the lookups of one table have the same indices on every replica. `parts`: the replicas' slices of each."""
        self._gradients += 1
        keys = [(self._gradients, len(parts), turn) for turn in range(len(parts))]
        return [
            self._is_same(part, self._lookups.setdefault(key, _Lookup())) for part, key in zip(parts, keys, strict=True)
        ]

    def _is_same(self, part: Sequence[Any], lookup: _Lookup) -> bool:
        are_equal, look_like_rows, length, checksum = self._facts(part)
        if not are_equal:
            if lookup.indices is not None and not lookup.is_of_rows:
                self._warn(
                    "for the same numbers on every device in some steps, and for others in the rest: the former may be wrong"
                )
            lookup.is_of_rows = True
        elif look_like_rows:
            lookup.lengths[self._rows] = length
        if lookup.is_of_rows:
            return False
        if look_like_rows and self._rows > 1 and not lookup.is_constant():
            lookup.unclear += 1
            if lookup.unclear == _UNCLEAR_STEPS and len(lookup.lengths) == 1:
                self._warn("for the same number in every row, on every device, or for numbers that belong to no row")
            return False
        if lookup.unclear:
            self._warn("for numbers that looked like those of rows in the first steps, and belong to no row")
        elif lookup.indices not in (None, checksum):
            self._warn("for numbers that are the same on every device, and change from step to step")
        lookup.indices = checksum
        return True

    def _facts(self, part: Sequence[Any]) -> tuple[bool, bool, int, int]:
        """Whether the replicas' indices are equal, and alike for all rows; their length and checksum in the first replica."""
        first, *others = (slices.indices.numpy() for slices in part)
        are_equal = all(np.array_equal(first, each) for each in others)
        own = [are_equal, self._rows > 0 and are_alike(first, self._rows), len(first), zlib.crc32(first.tobytes())]
        if self._processes is not None:
            of_all = self._processes.rows(tf.constant([own], tf.int64)).numpy()
            own = [bool(of_all[:, 0].all() and (of_all == of_all[0]).all()), *of_all[0, 1:].tolist()]
        return bool(own[0]), bool(own[1]), own[2], own[3]

    def _warn(self, how: str) -> None:
        if isinstance(getattr(self._model, "optimizer", None), keras.optimizers.SGD):
            return  # it only adds the entries of a number
        exact.warn_once(
            self._model,
            "lookups",
            f"a step of {self._model.name} looks up an embedding {how}. An optimizer that squares gradients (Adam) may "
            "give that embedding other weights than on one device. `run_eagerly=False` makes it clear",
        )


def are_alike(values: Any, rows: int) -> bool:
    """Whether values may be those of so many rows, with the same ones for the first and the last row."""
    size = len(values) // rows
    return len(values) % rows == 0 and np.array_equal(values[:size], values[len(values) - size :])
