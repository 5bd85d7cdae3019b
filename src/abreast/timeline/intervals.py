"""Intervals of time in whole nanoseconds, as arrays of two rows (begins, then ends), and operations on them.

Imports nothing of abreast.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Intervals = npt.NDArray[np.int64]  # 2 x any number

NONE: Intervals = np.empty((2, 0), np.int64)


def disjoint(some: Intervals) -> Intervals:
    """The same times as sorted intervals without overlaps or empty intervals. Intervals that touch are not merged."""
    if some.shape[1] == 0:
        return some
    begins, ends = some[:, some[0].argsort(kind="stable")]
    begins[1:] = np.maximum(begins[1:], np.maximum.accumulate(ends)[:-1])
    return np.stack((begins, ends))[:, begins < ends]


def without(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
    """The times in the intervals, without the holes. `owners` gives, for each hole, the index of its interval.

    Both the intervals and the holes must be sorted and disjoint.
    """
    begins, ends = _within_owners(some, holes, owners)
    # Holes cut an interval into one more piece than there are holes. A piece begins at the interval's begin or a hole's end.
    pieces = np.stack((np.sort(np.append(some[0], ends)), np.sort(np.append(some[1], begins))))
    return pieces[:, pieces[0] < pieces[1]]


def lengths_without(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Times:
    """Length of each interval without its holes, which must be disjoint."""
    begins, ends = _within_owners(some, holes, owners)
    lost = np.bincount(owners, weights=ends - begins, minlength=some.shape[1])
    left: Times = some[1] - some[0] - lost.astype(np.int64)  # weights are floats, which are exact up to 104 days
    return left


def _within_owners(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
    return np.clip(holes, some[0, owners], some[1, owners])
