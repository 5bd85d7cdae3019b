"""Which batches a step took, and what was told of them: their rows and bytes, how long they were read and put.

Not here: how long the step waited for them (`accounts.py`). Imports `intervals`, `span_columns` and `windows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abreast.timeline.intervals import Intervals, Times
from abreast.timeline.span_columns import Columns, in_order, none
from abreast.timeline.windows import Windows

_MOST_UNASKED = 1024  # that were told of: a validation's, of which no step asks
_STEP_BITS = 32  # a batch that a step asks for is one number: that of the batch, and below these that of the step
_STEP_MASK = (1 << _STEP_BITS) - 1


class BatchColumns(NamedTuple):
    """Of each step; times in nanoseconds."""

    numbers: Times  # of batches; 0: not told
    rows: Times
    num_bytes: Times
    read: Times
    put: Times


class StepBatches:
    """Takes spans as they are left, and gives numbers step after step, in order."""

    def __init__(self) -> None:
        self._taken = none("batch")
        self._reads = _Told(none("batch"))
        self._puts = _Told(none("batch", "rows", "bytes"))

    def take(self, taken: Columns, reads: Columns, puts: Columns) -> None:
        """With their batches, puts also with rows and bytes. `taken`: what the training thread did to get a batch."""
        self._taken = in_order(self._taken, taken)
        self._reads.take(reads)
        self._puts.take(puts)

    def of(self, windows: Windows, calls: Intervals) -> BatchColumns:
        """What the calls of these windows' steps took."""
        asks = self._asks(windows, calls)
        numbers = np.bincount(asks & _STEP_MASK, minlength=calls.shape[1])
        (read,), (put, rows, num_bytes) = self._reads.of(asks, calls[1]), self._puts.of(asks, calls[1])
        return BatchColumns(numbers, rows, num_bytes, read, put)

    def _asks(self, windows: Windows, calls: Intervals) -> Times:
        """The batches of steps: those taken during their calls, or else (Keras takes them on PyTorch) the one before it."""
        begins, _, batches = taken = self._taken[:, ~windows.in_callbacks(self._taken[0])]
        steps = _next_calls(calls[1], begins)
        is_during = begins >= calls[0].take(steps, mode="clip")
        is_last = np.append(steps[1:] != steps[:-1], True)[: len(steps)]  # before the call, or during it as well
        is_waiting = steps == calls.shape[1]
        self._taken = taken[:, is_waiting]
        chosen = (is_during | is_last) & ~is_waiting
        return np.unique(batches[chosen] << _STEP_BITS | steps[chosen])


class _Told:
    """What was told of batches, for the next step that asks for them.

    Of several of one batch, the newest counts: numbers begin anew with every epoch, and nobody asks for a validation's.
    """

    def __init__(self, nothing: Columns) -> None:
        self._told = nothing

    def take(self, told: Columns) -> None:
        self._told = in_order(self._told, told)

    def of(self, asks: Times, call_ends: Times) -> Times:
        """Nanoseconds, and the further columns, of what began before the call of the step that asks ended: by step."""
        begins, ends, batches, *more = self._told
        # In the order of batches, then of steps, what was told comes just before its ask.
        next_asks = asks.searchsorted(batches << _STEP_BITS | _next_calls(call_ends, begins))
        is_asked = np.append(asks >> _STEP_BITS, -1)[next_asks] == batches
        newest = np.full(len(asks), -1)
        newest[next_asks[is_asked]] = is_asked.nonzero()[0]  # of several for one place, the last one stays
        is_found = newest >= 0
        steps, found = asks[is_found] & _STEP_MASK, newest[is_found]
        columns = [np.bincount(steps, column[found], minlength=len(call_ends)) for column in (ends - begins, *more)]
        self._told = self._told[:, ~is_asked][:, -_MOST_UNASKED:]
        return np.array(columns).astype(np.int64)


def _next_calls(call_ends: Times, times: Times) -> Times:
    """The first call that ends later than each time; as many as there are: none yet."""
    return call_ends.searchsorted(times, "right")
