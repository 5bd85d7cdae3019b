"""A batch on its way to the mesh, padded to the same number of rows per device. Not here: the copy itself (`backend.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = int | tuple[tuple[int, int], ...]


@dataclass
class StagedBatch:
    """Arrays sharded over the mesh, padded to a multiple of its devices. The batch is `rows`: their first rows, or ranges."""

    data: Any
    rows: Rows
    padded_rows: int
    digest: int = 0  # checksum of the batch, if several processes compare their batches


def padded(array: np.ndarray[Any, Any], wanted: slice, first: int = 0) -> np.ndarray[Any, Any]:
    """Rows of a padded batch. `array` holds the batch's own rows from `first` on.

    The padding repeats the last row. It is cut off later, so any value works, but a real row cannot cause a NaN.
    """
    found = array[max(0, wanted.start - first) : max(0, wanted.stop - first)]
    missing = wanted.stop - wanted.start - len(found)
    return np.concatenate([found, np.broadcast_to(array[-1:], (missing, *array.shape[1:]))]) if missing else found
