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


# How many intervals of each kind are open at a moment is one number, of 16 bits a kind: the greatest kind is in the front.
_SUMMING, _COMPUTING, _CALLING, _WAITING, _PUTTING = _ONE = tuple(1 << bits for bits in (64, 48, 32, 16, 0))


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
    # One sweep over all beginnings and ends: this runs at every step of a training.
    edges = []
    for one, intervals in zip(_ONE, (sums, busy, callbacks, waits, puts), strict=True):
        for first, last in intervals:
            if first < end and last > start and first < last:
                edges.append((first if first > start else start, one))
                if last < end:
                    edges.append((last, -one))
    edges.sort()
    edges.append((end, 0))
    lengths = [0, 0, 0, 0, 0, 0]
    before, open_now = start, 0
    for time, change in edges:
        if time > before:
            if open_now >= _SUMMING:
                part = 3
            elif open_now >= _COMPUTING:
                part = 2
            elif open_now >= _CALLING:
                part = 4
            elif open_now >= _WAITING:
                part = 0 if open_now % _WAITING == 0 else 1
            else:
                part = 5
            lengths[part] += time - before
            before = time
        open_now += change
    return Parts(*lengths)
