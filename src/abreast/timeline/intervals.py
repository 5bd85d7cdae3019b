"""Intervals of time as arrays of two rows, beginnings over ends, in whole nanoseconds, and what one does with them.

Imports NumPy, and nothing of abreast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Intervals = npt.NDArray[np.int64]  # 2 x any number

NONE: Intervals = np.empty((2, 0), np.int64)


def intervals(begins: Sequence[int], ends: Sequence[int]) -> Intervals:
    return np.array((begins, ends), np.int64)


def disjoint(some: Intervals) -> Intervals:
    """The same times, sorted, and none twice; empty ones are left out, and those that touch stay two."""
    if some.shape[1] == 0:
        return some
    begins, ends = some[:, some[0].argsort(kind="stable")]
    begins[1:] = np.maximum(begins[1:], np.maximum.accumulate(ends)[:-1])
    return np.stack((begins, ends))[:, begins < ends]


def without(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
    """The times in each interval and not in its holes: those whose owner is its index.

    Intervals as well as holes are sorted and disjoint.
    """
    begins, ends = _within_owners(some, holes, owners)
    # Each interval is as many pieces as it has holes, and one: they begin where it does and where its holes end.
    pieces = np.stack((np.sort(np.append(some[0], ends)), np.sort(np.append(some[1], begins))))
    return pieces[:, pieces[0] < pieces[1]]


def lengths_without(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Times:
    """How long each interval is outside of its holes, which are disjoint."""
    begins, ends = _within_owners(some, holes, owners)
    lost = np.bincount(owners, weights=ends - begins, minlength=some.shape[1])
    left: Times = some[1] - some[0] - lost.astype(np.int64)  # weights are floats, and exact up to 104 days
    return left


def _within_owners(some: Intervals, holes: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
    return np.clip(holes, some[0, owners], some[1, owners])
