"""Turns spans and the times of callbacks into one row per step: assigns spans to steps, and cuts off overlapping time.

Runs in the recorder's thread once a second, for all steps of that second together: one by one they take four times as
long. Not here: splitting steps (`step_parts.py`), their batches (`step_batches.py`), their times on the devices
(`step_devices.py`), the spans kept for a trace (`step_spans.py`), and receiving spans (`recorder.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from abreast.spans import MAIN, Span
from abreast.timeline.intervals import NONE, Intervals, Times, disjoint, lengths_without
from abreast.timeline.span_columns import columns, in_order
from abreast.timeline.step_batches import StepBatches
from abreast.timeline.step_devices import StepDevices
from abreast.timeline.step_parts import split
from abreast.timeline.step_spans import ALL_REDUCE, StepSpans
from abreast.timeline.step_table import Numbers, StepTable
from abreast.timeline.windows import Window, Windows


class Accounts:
    """Takes spans as they arrive, and windows after they are closed and the devices have computed them."""

    def __init__(self, begin_ns: int, tracks: tuple[str, ...], keep_steps: int) -> None:
        self.begin_ns = begin_ns
        self.table = StepTable(len(tracks))
        self.newest = StepSpans(begin_ns, tracks, keep_steps)
        self._batches = StepBatches()
        self._devices = StepDevices(len(tracks), begin_ns)
        self._waits = self._calls = self._sums = self._puts = NONE

    def take(self, spans: list[Span]) -> None:
        """Add spans, sorted by their role in a step."""
        self.newest.take(spans)
        found: defaultdict[str, list[Span]] = defaultdict(list)
        for span in spans:
            found[span.name].append(span)
        waits, reads = columns(found["wait"], "batch"), columns(found["read"], "batch")
        puts = columns(found["put"], "batch", "rows", "bytes")
        # Without staging, the training thread itself reads and puts batches, so both delay the step.
        own_reads, own_puts = reads[:, _on_main(found["read"])], puts[:, _on_main(found["put"])]
        self._waits = in_order(self._waits, waits[:2], own_reads[:2], own_puts[:2])
        self._calls = in_order(self._calls, columns(found["step"]))
        self._sums = in_order(self._sums, columns(found[ALL_REDUCE]))
        self._puts = in_order(self._puts, puts[:2])
        self._batches.take(np.concatenate((waits, own_puts[:3]), axis=1), reads, puts)

    def enter(self, closed: Sequence[Window]) -> Numbers:
        """The rows of the next windows, at least one. They must be closed, and all spans of their time taken."""
        windows = Windows.of(closed)
        calls = _calls(self._calls, windows)
        computing = self._devices.of(closed, calls)
        computed = np.minimum(windows.end, np.maximum(windows.ended, computing.after))
        ends = np.where(windows.is_last, computed, windows.end)
        steps = np.stack((windows.start, ends))
        pauses = disjoint(_of_steps(self._waits, windows, ends))
        owners = windows.begun(pauses[0])
        parts = split(
            steps,
            busy=computing.busy(calls, steps, pauses, owners),
            sums=_of_steps(self._sums, windows, ends),
            callbacks=np.minimum(windows.callbacks(), np.tile(ends, 2)),
            waits=pauses,
            puts=self._puts,
        )
        batches = self._batches.of(windows, calls)
        self.newest.enter(windows, ends, computing, pauses)
        self._forget(windows.end[-1])
        # In the order of `step_table.STEP`.
        steps_columns = (
            *(windows.epoch, windows.first, np.where(batches.numbers, batches.numbers, windows.batches)),
            *(batches.rows, batches.num_bytes, windows.start - self.begin_ns, ends - windows.start, parts),
            *(lengths_without(calls, pauses, owners), batches.read, batches.put),
        )
        numbers = np.column_stack(steps_columns)
        self.table.append(numbers, computing.durations(pauses, owners))
        return numbers

    def _forget(self, end: int) -> None:
        """Drop the spans that no later window can own, which began before `end`. Puts may last longer than `end`."""
        self._waits, self._calls, self._sums = (
            each[:, each[0] >= end] for each in (self._waits, self._calls, self._sums)
        )
        self._puts = self._puts[:, self._puts[1] > end]


def _on_main(spans: list[Span]) -> npt.NDArray[np.bool_]:
    return np.array([span.track == MAIN for span in spans], np.bool_)


def _of_steps(some: Intervals, windows: Windows, ends: Times) -> Intervals:
    """The intervals that began in a window, cut off at the window's end."""
    owners = windows.owners(some[0])
    own = owners >= 0
    return np.minimum(some[:, own], ends[owners[own]])


def _calls(some: Intervals, windows: Windows) -> Intervals:
    """The first call of the step function in each window; without one, all of the window between its callbacks."""
    calls = np.stack((windows.called, windows.returned))
    owners = windows.owners(some[0])
    own = owners >= 0
    calls[:, owners[own][::-1]] = some[:, own][:, ::-1]  # reversed: with several values for one index, the last is kept
    return calls
