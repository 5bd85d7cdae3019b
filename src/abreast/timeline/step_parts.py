"""The parts of a training step, and the rule that splits it into them.

Each moment of a step belongs to the first of these that is true at that moment: the device sums over devices, the device
computes, a callback runs, the step waits for a batch whose copy is being made, the step waits for a batch. The remaining
time is Python's. So time that computing hides counts as computing, and the parts add up to the step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from abreast.timeline.intervals import NONE, Intervals, disjoint

PARTS = ("wait", "copy", "compute", "all_reduce", "callbacks", "rest")
LABELS = {
    "wait": "waiting for input",
    "copy": "copying to devices",
    "compute": "computing",
    "all_reduce": "all-reduce",
    "callbacks": "callbacks",
    "rest": "rest of Python",
}
COMPUTE_WITH_ALL_REDUCE = "computing with all-reduce"

# A state is a number of five bits: one for each thing that can be true at a moment.
_PUTTING, _WAITING, _CALLING, _COMPUTING, _SUMMING = _BITS = (1, 2, 4, 8, 16)
_CHANGES = np.array([sign * bit for bit in _BITS for sign in (1, -1)])
_BOUNDARY = 32  # the bits from here on count the begins and ends of steps passed so far


def _part(state: int) -> str:
    if state & _SUMMING:
        return "all_reduce"
    if state & _COMPUTING:
        return "compute"
    if state & _CALLING:
        return "callbacks"
    if state & _WAITING:
        return "copy" if state & _PUTTING else "wait"
    return "rest"


_PART_OF = np.array([PARTS.index(_part(state)) for state in range(_BOUNDARY)])


def split(
    steps: Intervals,
    *,
    busy: Intervals = NONE,
    sums: Intervals = NONE,
    callbacks: Intervals = NONE,
    waits: Intervals = NONE,
    puts: Intervals = NONE,
) -> npt.NDArray[np.int64]:
    """Split steps, which must be sorted and disjoint: for each, a row of `PARTS` in nanoseconds.

    `busy` and `sums`: times when the device computes, and sums over devices. `callbacks` and `waits`: times when the training
    thread is in callbacks, or waits for a batch. `puts`: times when a batch is cut and its copies are begun. These intervals
    need not be sorted or disjoint, nor lie in a step.
    """
    # One sweep over the begins and ends of all steps, for speed: every step of a training is split.
    kinds = [disjoint(kind) for kind in (puts, waits, callbacks, busy, sums)]
    times = np.concatenate((steps.T.ravel(), *(kind.ravel() for kind in kinds)))
    order = times.argsort(kind="stable")
    times = times[order]
    changes = np.repeat((_BOUNDARY, *_CHANGES), (steps.size, *(kind.shape[1] for kind in kinds for _ in range(2))))
    states = changes[order].cumsum()[:-1]
    durations = np.diff(times)
    lasting = durations > 0  # between two changes at the same time, the state may be invalid
    states, durations = states[lasting], durations[lasting]
    cells = states // _BOUNDARY * len(PARTS) + _PART_OF[states % _BOUNDARY]
    num_cells = (steps.size + 1) * len(PARTS)  # times before, in, between and after steps
    sums_by_cell = np.bincount(cells, weights=durations, minlength=num_cells)  # floats, which are exact up to 104 days
    return sums_by_cell.reshape(-1, len(PARTS))[1::2].astype(np.int64)
