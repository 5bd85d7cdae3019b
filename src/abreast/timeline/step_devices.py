"""The times when devices computed each step, derived from their finish times: a device computes the steps in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.timeline.intervals import Intervals, Times, lengths_without, without
from abreast.timeline.windows import Window


class Computing(NamedTuple):
    """The times when devices computed some steps.

    A device starts to compute a step at the step's call, or after the previous step, whichever is later. It does not compute
    while the call waits.
    """

    begins: Times  # steps x devices
    finishes: Times  # steps x devices; equal to `begins` if the step was reported as finished before that
    before: Times  # per step: when all devices had finished all earlier steps
    after: Times  # per step: when all devices had finished this step and all earlier ones

    def busy(self, calls: Intervals, steps: Intervals, pauses: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
        """The times when any device computes. `owners` gives the step of each pause."""
        starts, ends = steps
        # Devices compute earlier steps until `before`, without pauses. After that they compute the step itself.
        before = np.clip(self.before, starts, ends)
        begins = np.clip(calls[0], before, ends)
        own = np.stack((begins, np.clip(self.finishes.max(axis=1), begins, ends)))
        return np.concatenate((np.stack((starts, before)), without(own, pauses, owners)), axis=1)

    def durations(self, pauses: Intervals, owners: npt.NDArray[np.intp]) -> Times:
        """Nanoseconds that each device computed: steps x devices."""
        each = zip(self.begins.T, self.finishes.T, strict=True)
        return np.column_stack([lengths_without(np.stack(times), pauses, owners) for times in each])


class StepDevices:
    """Takes windows in order, and keeps the time when each device finished the last step."""

    def __init__(self, num_devices: int, begin_ns: int) -> None:
        self._finished = np.full((1, num_devices), begin_ns)

    def of(self, closed: Sequence[Window], calls: Intervals) -> Computing:
        """The computing times of these steps. A step without a known finish counts as computed when its call returns."""
        finishes = self._finishes(closed, calls[1])
        finished = np.maximum.accumulate(np.concatenate((self._finished, finishes)))
        self._finished = finished[-1:]
        begins = np.maximum(calls[0][:, None], finished[:-1])
        return Computing(begins, np.maximum(begins, finishes), finished[:-1].max(axis=1), finished[1:].max(axis=1))

    def _finishes(self, closed: Sequence[Window], call_ends: Times) -> Times:
        num_devices = self._finished.shape[1]
        if not any(window.finished for window in closed):
            return np.repeat(call_ends[:, None], num_devices, axis=1)
        known = [window.finished or (end,) for window, end in zip(closed, call_ends.tolist(), strict=True)]
        return np.array([times if len(times) == num_devices else times * num_devices for times in known], np.int64)
