"""What one training step is split into, and the rule that splits it.

At each moment the step belongs to the first of these that is true of it: the device sums over devices, the device
computes, a callback runs, a batch is awaited while its copy is made, a batch is awaited; what is left is Python's. So
time that is hidden behind computing counts as computing, and the parts add up to the step. Imports `intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from abreast.measure.intervals import Interval, length, merged, shared, within, without


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
    summing = within(merged(sums), start, end) if sums else []
    computing = without(within(merged(busy), start, end), summing)
    taken = merged([*summing, *computing]) if summing else computing
    calling = without(within(merged(callbacks), start, end), taken)
    waiting = without(without(within(merged(waits), start, end), taken), calling)
    copying = shared(waiting, merged(puts)) if puts else []
    copy = length(copying)
    wait = length(waiting) - copy
    compute, all_reduce, calls = length(computing), length(summing), length(calling)
    rest = end - start - wait - copy - compute - all_reduce - calls
    return Parts(wait, copy, compute, all_reduce, calls, rest)
