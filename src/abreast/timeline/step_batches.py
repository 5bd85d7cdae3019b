"""The batches of each step: their number, rows and bytes, and the time to read and put them.

Not here: the time that the step waited for them (`accounts.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abreast.timeline.intervals import Intervals, Times
from abreast.timeline.span_columns import Columns, in_order, none
from abreast.timeline.windows import Windows

_MOST_UNUSED = 1024  # spans kept of batches that no step uses: those of a validation
_STEP_BITS = 32  # a use of a batch is one integer: the number of the batch, then this many bits for the step's index
_STEP_MASK = (1 << _STEP_BITS) - 1


class BatchColumns(NamedTuple):
    """One value per step; `read` and `put` in nanoseconds."""

    numbers: Times  # number of batches; 0: not known
    rows: Times
    num_bytes: Times
    read: Times
    put: Times


class StepBatches:
    """Takes spans as they arrive, and returns the numbers of steps in order."""

    def __init__(self) -> None:
        self._taken = none("batch")
        self._reads = _BatchSpans(none("batch"))
        self._puts = _BatchSpans(none("batch", "rows", "bytes"))

    def take(self, taken: Columns, reads: Columns, puts: Columns) -> None:
        """Add spans with the number of their batch; puts also have rows and bytes.

        `taken` are the training thread's spans of getting a batch.
        """
        self._taken = in_order(self._taken, taken)
        self._reads.take(reads)
        self._puts.take(puts)

    def of(self, windows: Windows, calls: Intervals) -> BatchColumns:
        """The batches that the steps of these windows used."""
        uses = self._uses(windows, calls)
        numbers = np.bincount(uses & _STEP_MASK, minlength=calls.shape[1])
        (read,), (put, rows, num_bytes) = self._reads.of(uses, calls[1]), self._puts.of(uses, calls[1])
        return BatchColumns(numbers, rows, num_bytes, read, put)

    def _uses(self, windows: Windows, calls: Intervals) -> Times:
        """Pairs of batch and step: the batches taken during a step's call, or else the last batch taken before it.

        On PyTorch, Keras takes a batch before it calls the step function.
        """
        begins, _, batches = taken = self._taken[:, ~windows.in_callbacks(self._taken[0])]
        steps = _next_calls(calls[1], begins)
        is_during = begins >= calls[0].take(steps, mode="clip")
        is_last = np.append(steps[1:] != steps[:-1], True)[: len(steps)]  # the last one before the end of a call
        is_waiting = steps == calls.shape[1]
        self._taken = taken[:, is_waiting]
        chosen = (is_during | is_last) & ~is_waiting
        return np.unique(batches[chosen] << _STEP_BITS | steps[chosen])


class _BatchSpans:
    """Spans of batches, kept until a step uses their batch.

    If a batch has several spans, the newest counts: numbers restart with every epoch, and no step uses a validation's.
    """

    def __init__(self, nothing: Columns) -> None:
        self._waiting = nothing

    def take(self, spans: Columns) -> None:
        self._waiting = in_order(self._waiting, spans)

    def of(self, uses: Times, call_ends: Times) -> Times:
        """Total duration (ns) and further columns per step, of the spans that started before that step's call returned."""
        begins, ends, batches, *more = self._waiting
        # Sorted by batch, then by step, a span comes just before the use of its batch.
        next_uses = uses.searchsorted(batches << _STEP_BITS | _next_calls(call_ends, begins))
        is_used = np.append(uses >> _STEP_BITS, -1)[next_uses] == batches
        newest = np.full(len(uses), -1)
        newest[next_uses[is_used]] = is_used.nonzero()[0]  # with several values for one index, the last is kept
        is_found = newest >= 0
        steps, found = uses[is_found] & _STEP_MASK, newest[is_found]
        columns = [np.bincount(steps, column[found], minlength=len(call_ends)) for column in (ends - begins, *more)]
        self._waiting = self._waiting[:, ~is_used][:, -_MOST_UNUSED:]
        return np.array(columns).astype(np.int64)


def _next_calls(call_ends: Times, times: Times) -> Times:
    """Index of the first call that ends later than each time; the number of calls if none does yet."""
    return call_ends.searchsorted(times, "right")
