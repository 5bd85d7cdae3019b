"""Every span of the newest steps, for a trace: the spans that arrived, and spans of steps, callbacks and devices."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator

import numpy as np

from abreast.spans import Span
from abreast.timeline.intervals import NONE, Intervals, Times
from abreast.timeline.step_devices import Computing
from abreast.timeline.windows import Windows

ALL_REDUCE = "all-reduce"
COMPUTE = "compute"
CALLBACKS = "callbacks"
STEPS = "steps"
_SPANS_PER_STEP = 64  # at most this many arrived spans are kept per step


class StepSpans:
    """Keeps the newest steps as numbers, and makes spans of them on request. Any thread may ask."""

    def __init__(self, begin_ns: int, tracks: tuple[str, ...], keep_steps: int) -> None:
        self._begin_ns, self._tracks, self._keep_steps = begin_ns, tracks, keep_steps
        self._arrived: deque[Span] = deque(maxlen=_SPANS_PER_STEP * keep_steps)
        # A row per step: seven numbers of its window, when each device began it, when each finished it. Then all pauses.
        self._steps: tuple[Times, Intervals] = np.empty((0, 7 + 2 * len(tracks)), np.int64), NONE

    def take(self, spans: list[Span]) -> None:
        self._arrived.extend(spans)

    def enter(self, windows: Windows, ends: Times, computing: Computing, pauses: Intervals) -> None:
        """Add steps, which end at `ends`. `pauses` are the pauses of all these steps, sorted and disjoint."""
        times = (windows.start, windows.called, windows.returned, windows.ended, ends)
        new = np.column_stack((windows.epoch, windows.first, *times, computing.begins, computing.finishes))
        steps = np.concatenate((self._steps[0], new))[-self._keep_steps :]
        pauses = np.concatenate((self._steps[1], pauses), axis=1)
        self._steps = steps, pauses[:, pauses[0] >= steps[0, 2]]

    def spans(self) -> tuple[Span, ...]:
        """All spans of the newest steps, and spans that arrived between them."""
        steps, pauses = self._steps
        oldest = int(steps[0, 2]) if len(steps) else self._begin_ns
        arrived = [span for span in self._arrived.copy() if span.end_ns >= oldest]
        found = [span._replace(track=self._tracks[0]) if span.name == ALL_REDUCE else span for span in arrived]
        cuts = list(zip(*pauses.tolist(), strict=True))
        return (*found, *(span for step in steps.tolist() for span in self._of_step(step, cuts)))

    def _of_step(self, step: list[int], pauses: list[tuple[int, int]]) -> Iterator[Span]:
        epoch, first, start, called, returned, ended, end, *computed = step
        yield Span(STEPS, f"step {first}", start, end, {"epoch": epoch})
        yield Span(CALLBACKS, "on_train_batch_begin", start, called, {})
        yield Span(CALLBACKS, "on_train_batch_end", returned, ended, {})
        own = pauses[bisect_left(pauses, (start, 0)) : bisect_left(pauses, (end, 0))]
        num_devices = len(self._tracks)
        for track, begin, finish in zip(self._tracks, computed[:num_devices], computed[num_devices:], strict=True):
            for pause_begin, pause_end in [*own, (finish, finish)]:
                if begin < min(pause_begin, finish):
                    yield Span(track, COMPUTE, begin, min(pause_begin, finish), {"step": first})
                begin = max(begin, pause_end)
