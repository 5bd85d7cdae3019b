"""Times of training steps, noted by the training thread: `Window` is one step, `Windows` many steps as columns.

Also here: the search for the step that contains a time. Not here: the parts of a step (`accounts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.timeline.intervals import Intervals, Times


@dataclass(slots=True)
class Window:
    """A training step: from one `on_train_batch_begin` to the next, in nanoseconds."""

    epoch: int
    first: int
    start: int
    batches: int = 1  # more with `steps_per_execution`
    called: int = 0  # when `on_train_batch_begin` returned: the step function is next
    returned: int = 0  # when `on_train_batch_end` began
    ended: int = 0  # when `on_train_batch_end` returned; 0: the step did not end
    end: int = 0  # 0: the next step has not begun
    is_last: bool = False  # the last step of its epoch: `end` is the begin of another event
    handle: object = None
    finished: tuple[int, ...] = ()  # when each device had computed it; empty: when its call returned


@dataclass(frozen=True)
class EpochRecord:
    """An epoch from its begin to the end of its `on_epoch_end`, and the validation in it, in nanoseconds."""

    epoch: int
    start: int
    end: int
    validation: int


class Windows(NamedTuple):
    """Consecutive windows as columns."""

    epoch: Times
    first: Times
    start: Times
    batches: Times
    called: Times
    returned: Times
    ended: Times
    end: Times
    is_last: Times

    @staticmethod
    def of(windows: Sequence[Window]) -> Windows:
        values = np.fromiter(chain.from_iterable(map(_FIELDS, windows)), np.int64, len(windows) * len(Windows._fields))
        return Windows(*values.reshape(-1, len(Windows._fields)).T)

    def callbacks(self) -> Intervals:
        return np.stack((np.append(self.start, self.returned), np.append(self.called, self.ended)))

    def in_callbacks(self, times: Times) -> npt.NDArray[np.bool_]:
        """True for each time inside a step's callbacks: a span that began then belongs to a callback's own `fit`, for example."""
        index = self.begun(times)
        inside = (times < self.called[index]) | ((self.returned[index] <= times) & (times < self.ended[index]))
        return (index >= 0) & inside

    def owners(self, times: Times) -> npt.NDArray[np.intp]:
        """Index of the window that contains each time; -1 inside callbacks or between windows."""
        index = self.begun(times)
        return np.where(self.in_callbacks(times) | (times >= self.end[index]), -1, index)

    def begun(self, times: Times) -> npt.NDArray[np.intp]:
        """Index of the last window that begins no later than each time; -1 without one."""
        return self.start.searchsorted(times, "right") - 1


_FIELDS = attrgetter(*Windows._fields)
