"""From spans and the times of callbacks to one row per step: which spans belong to a step, and what was hidden.

Runs in the recorder's thread, once a second, for all steps of that time: one by one they take four times as long.
Not here: how steps are split (`step_parts.py`), which batches they took (`step_batches.py`), when devices computed them
(`step_devices.py`), what is kept for a trace (`step_spans.py`), who hears the spans (`recorder.py`). Imports all but the last.
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
    """Takes spans as they are left, and windows once they are closed and computed."""

    def __init__(self, begin_ns: int, tracks: tuple[str, ...], keep_steps: int) -> None:
        self.begin_ns = begin_ns
        self.table = StepTable(len(tracks))
        self.newest = StepSpans(begin_ns, tracks, keep_steps)
        self._batches = StepBatches()
        self._devices = StepDevices(len(tracks), begin_ns)
        self._waits = self._calls = self._sums = self._puts = NONE

    def take(self, spans: list[Span]) -> None:
        """Sort spans that others have left by what they are to a step."""
        self.newest.take(spans)
        found: defaultdict[str, list[Span]] = defaultdict(list)
        for span in spans:
            found[span.name].append(span)
        waits, reads = columns(found["wait"], "batch"), columns(found["read"], "batch")
        puts = columns(found["put"], "batch", "rows", "bytes")
        # Without staging the training thread reads and puts by itself: both are in the step's way.
        own_reads, own_puts = reads[:, _on_main(found["read"])], puts[:, _on_main(found["put"])]
        self._waits = in_order(self._waits, waits[:2], own_reads[:2], own_puts[:2])
        self._calls = in_order(self._calls, columns(found["step"]))
        self._sums = in_order(self._sums, columns(found[ALL_REDUCE]))
        self._puts = in_order(self._puts, puts[:2])
        self._batches.take(np.concatenate((waits, own_puts[:3]), axis=1), reads, puts)

    def enter(self, closed: Sequence[Window]) -> Numbers:
        """The rows of the next windows, of one or more; they must be closed, and all spans of their time taken."""
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
        """What began before the end of the last window is of no other. Only a copy may go on."""
        self._waits, self._calls, self._sums = (
            each[:, each[0] >= end] for each in (self._waits, self._calls, self._sums)
        )
        self._puts = self._puts[:, self._puts[1] > end]


def _on_main(spans: list[Span]) -> npt.NDArray[np.bool_]:
    return np.array([span.track == MAIN for span in spans], np.bool_)


def _of_steps(some: Intervals, windows: Windows, ends: Times) -> Intervals:
    """Those that began in a window, until its end."""
    owners = windows.owners(some[0])
    own = owners >= 0
    return np.minimum(some[:, own], ends[owners[own]])


def _calls(some: Intervals, windows: Windows) -> Intervals:
    """The first call of the step function in each window; without one, all the time that callbacks leave it."""
    calls = np.stack((windows.called, windows.returned))
    owners = windows.owners(some[0])
    own = owners >= 0
    calls[:, owners[own][::-1]] = some[:, own][:, ::-1]  # of several for one place, the last one stays
    return calls
