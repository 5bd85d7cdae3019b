"""Lookups of embeddings in steps that run eagerly: those of each replica's rows, and those of the same numbers on every replica.

One step may not show it: rows may be equal by chance, and numbers that are not those of rows may look like it. So a lookup's
earlier steps count, and a warning says what remains unclear. Not here: what becomes of the gradients (`slices.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from abreast import exact
from abreast.backend.tensorflow.processes import Processes

_UNCLEAR_STEPS = 4


@dataclass
class _Lookup:
    """The evidence of the steps about one lookup."""

    is_of_rows: bool = False  # replicas had other indices
    indices: Any = None  # those that all replicas had, and that belong to no row
    unclear: int = 0  # steps in which all replicas had the same indices, and these looked like those of equal rows


class EagerIndices:
    """The judge of the lookups of a model's steps. Warns once where it cannot decide."""

    def __init__(self, model: Any, processes: Processes | None) -> None:
        """`processes`: those of other replicas, which decide alike."""
        self._model, self._processes = model, processes
        # By the number of the gradient, the number of its lookups, and that of the lookup.
        self._lookups: dict[tuple[int, int, int], _Lookup] = {}
        self.begin(0)

    def begin(self, rows: int) -> None:
        """Begin a step with `rows` rows on each replica; 0 if they have different numbers."""
        self._rows, self._gradients = rows, 0

    def are_same(self, parts: Sequence[Sequence[Any]]) -> list[bool]:
        """Whether the lookups of one table have the same indices on every replica. `parts`: the replicas' slices of each."""
        self._gradients += 1
        keys = [(self._gradients, len(parts), turn) for turn in range(len(parts))]
        lookups = [self._lookups.setdefault(key, _Lookup()) for key in keys]
        return list(map(self._is_same, parts, lookups))

    def _is_same(self, part: Sequence[Any], lookup: _Lookup) -> bool:
        indices = part[0].indices.numpy()
        are_equal = self._are_equal([indices, *(slices.indices.numpy() for slices in part[1:])])
        if not are_equal:
            if lookup.indices is not None and not lookup.is_of_rows:
                self._warn("were the same numbers on every device in the first steps, and are those of rows")
            lookup.is_of_rows = True
        if lookup.is_of_rows:
            return False
        if self._look_like_rows(indices):
            lookup.unclear += 1
            if lookup.unclear == _UNCLEAR_STEPS:
                self._warn("are the same number in every row of every device, or belong to no row")
            return False
        if lookup.unclear:
            self._warn("looked like numbers of equal rows in the first steps, and belong to no row")
        elif self._rows and len(indices) % self._rows == 0 and not _continue(lookup.indices, indices):
            self._warn("are the same numbers on every device, and change from step to step")
        lookup.indices = indices
        return True

    def _look_like_rows(self, indices: Any) -> bool:
        """Whether indices may be those of rows that are all alike. One row has none beside it: its entries are then alike."""
        return self._rows > 0 and are_alike(indices, self._rows if self._rows > 1 else max(1, len(indices)))

    def _are_equal(self, of_replicas: list[Any]) -> bool:
        first, *others = of_replicas
        are_equal = all(np.array_equal(first, each) for each in others)
        if self._processes is None:
            return are_equal
        own = tf.constant([[are_equal, len(first), zlib.crc32(first.tobytes())]], tf.int64)
        of_all = self._processes.rows(own).numpy()
        return bool(of_all[:, 0].all() and (of_all == of_all[0]).all())

    def _warn(self, how: str) -> None:
        if isinstance(getattr(self._model, "optimizer", None), keras.optimizers.SGD):
            return  # it only adds the entries of a number
        exact.warn_once(
            self._model,
            "lookups",
            f"a step of {self._model.name} looks up numbers in an embedding that {how}. An optimizer that squares gradients, "
            "such as Adam, may then change the embedding otherwise than on one device. `run_eagerly=False` leaves no such doubt",
        )


def are_alike(values: Any, rows: int) -> bool:
    """Whether values may be those of so many rows, with the same ones for the first and the last row."""
    size = len(values) // rows
    return len(values) % rows == 0 and np.array_equal(values[:size], values[len(values) - size :])


def _continue(before: Any, now: Any) -> bool:
    """Whether indices are those of the step before, or more or fewer of them, as positions are."""
    shared = len(now) if before is None else min(len(before), len(now))
    return before is None or np.array_equal(before[:shared], now[:shared])
