"""When devices computed each step, by when they had finished it: a device does one step after the other, in order.

Imports `intervals` and `windows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.timeline.intervals import Intervals, Times, lengths_without, without
from abreast.timeline.windows import Window


class Computing(NamedTuple):
    """Of some steps. A device computes a step from its call, or from its last finish, on; never while the call waits."""

    begins: Times  # steps x devices
    finishes: Times  # as `begins` where the step was told to be finished before
    before: Times  # of each step: when all devices had finished all steps before it
    after: Times  # and all until it

    def busy(self, calls: Intervals, steps: Intervals, pauses: Intervals, owners: npt.NDArray[np.intp]) -> Intervals:
        """When any device computes. `owners` says in which step each pause is."""
        starts, ends = steps
        # Until `before` without a pause: what a step began it begins again only when that is finished. Then its own.
        before = np.clip(self.before, starts, ends)
        begins = np.clip(calls[0], before, ends)
        own = np.stack((begins, np.clip(self.finishes.max(axis=1), begins, ends)))
        return np.concatenate((np.stack((starts, before)), without(own, pauses, owners)), axis=1)

    def durations(self, pauses: Intervals, owners: npt.NDArray[np.intp]) -> Times:
        """Steps by devices."""
        each = zip(self.begins.T, self.finishes.T, strict=True)
        return np.column_stack([lengths_without(np.stack(times), pauses, owners) for times in each])


class StepDevices:
    """Takes windows step after step, in order, and keeps when each device has finished."""

    def __init__(self, num_devices: int, begin_ns: int) -> None:
        self._finished = np.full((1, num_devices), begin_ns)

    def of(self, closed: Sequence[Window], calls: Intervals) -> Computing:
        """`calls` of the step function; a step of which no finish was told is computed when that returns."""
        told = self._told(closed, calls[1])
        finished = np.maximum.accumulate(np.concatenate((self._finished, told)))
        self._finished = finished[-1:]
        begins = np.maximum(calls[0][:, None], finished[:-1])
        return Computing(begins, np.maximum(begins, told), finished[:-1].max(axis=1), finished[1:].max(axis=1))

    def _told(self, closed: Sequence[Window], call_ends: Times) -> Times:
        num_devices = self._finished.shape[1]
        if not any(window.finished for window in closed):
            return np.repeat(call_ends[:, None], num_devices, axis=1)
        told = [window.finished or (end,) for window, end in zip(closed, call_ends.tolist(), strict=True)]
        return np.array([times if len(times) == num_devices else times * num_devices for times in told], np.int64)
