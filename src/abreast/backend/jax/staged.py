"""A batch on its way to the mesh, padded so that each device has as many rows. Not here: who puts it there (`backend.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = int | tuple[tuple[int, int], ...]


@dataclass
class StagedBatch:
    """Arrays sharded over the mesh, padded to divide by its devices. The batch is their first `rows` rows, or several ranges."""

    data: Any
    rows: Rows
    padded_rows: int
    digest: int = 0  # of the batch, where several processes compare theirs


def padded(array: np.ndarray[Any, Any], wanted: slice, first: int = 0) -> np.ndarray[Any, Any]:
    """Rows of a padded batch. `array` has the batch's own rows from `first` on.

    The last row is repeated: any value will do (it is cut off), but a real one cannot make a NaN.
    """
    found = array[max(0, wanted.start - first) : max(0, wanted.stop - first)]
    missing = wanted.stop - wanted.start - len(found)
    return np.concatenate([found, np.broadcast_to(array[-1:], (missing, *array.shape[1:]))]) if missing else found
