"""What one training step is split into, and the rule that splits it.

At each moment the step belongs to the first of these that is true of it: the device sums over devices, the device
computes, a callback runs, a batch is awaited while its copy is made, a batch is awaited; what is left is Python's. So
time that is hidden behind computing counts as computing, and the parts add up to the step. Imports `intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from abreast.measure.intervals import Interval


class Parts(NamedTuple):
    """One step in nanoseconds; they add up to its wall time."""

    wait: int
    copy: int
    compute: int
    all_reduce: int
    callbacks: int
    rest: int


PARTS = Parts._fields
LABELS = {
    "wait": "waiting for input",
    "copy": "copying to devices",
    "compute": "computing",
    "all_reduce": "all-reduce",
    "callbacks": "callbacks",
    "rest": "rest of Python",
}
COMPUTE_WITH_ALL_REDUCE = "compute (with all-reduce)"


def split(
    start: int,
    end: int,
    *,
    busy: Sequence[Interval] = (),
    sums: Sequence[Interval] = (),
    callbacks: Sequence[Interval] = (),
    waits: Sequence[Interval] = (),
    puts: Sequence[Interval] = (),
) -> Parts:
    """Split the time between two moments: when the device is busy, when it sums, when the training thread does what.

    `puts` are the times in which a batch is cut and its copies are begun. The intervals need not be sorted or disjoint.
    """
    lengths = [0, 0, 0, 0, 0, 0]
    open_now = [0, 0, 0, 0, 0]
    before = start
    # One sweep over all beginnings and ends: this runs at every step of a training.
    edges = []
    for kind, intervals in enumerate((sums, busy, callbacks, waits, puts)):
        for first, last in intervals:
            if first < end and last > start and first < last:
                edges.append((first if first > start else start, kind, 1))
                if last < end:
                    edges.append((last, kind, -1))
    edges.sort()
    edges.append((end, 0, 0))
    for time, kind, change in edges:
        if time > before:
            lengths[_belongs(open_now)] += time - before
            before = time
        open_now[kind] += change
    return Parts(*lengths)


def _belongs(open_now: Sequence[int]) -> int:
    """The index in `Parts` of a moment at which so many intervals of each kind are open."""
    summing, computing, calling, waiting, putting = open_now
    if summing:
        return 3
    if computing:
        return 2
    if calling:
        return 4
    if waiting:
        return 1 if putting else 0
    return 5
