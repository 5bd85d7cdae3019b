"""From spans and the times of callbacks to one row per step: which spans belong to a step, and what was hidden.

Runs in the recorder's thread, step after step, in order, and takes about 30 microseconds of each. Not here: how one step is
split (`step_parts.py`), who hears the spans (`recorder.py`). Imports `spans`, `step_parts` and `step_table`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from abreast.measure.intervals import Interval, length, merged, without
from abreast.measure.spans import MAIN, Span
from abreast.measure.step_parts import Parts, split
from abreast.measure.step_table import StepTable

ALL_REDUCE = "all-reduce"
COMPUTE = "compute"
CALLBACKS = "callbacks"
STEPS = "steps"
_SPANS_PER_STEP = 64  # that are kept, at most
_MOST_WAITING = 8192  # spans for the next step: a long validation leaves many, which are of no step
_MOST_BATCHES = 512
_MOST_EPOCHS = 64  # that are told of at once


@dataclass(slots=True)
class Window:
    """A training step as the training thread saw it: from one `on_train_batch_begin` to the next, in nanoseconds."""

    epoch: int
    first: int
    start: int
    batches: int = 1  # more with `steps_per_execution`
    called: int = 0  # callbacks have begun the batch: the step function is next
    returned: int = 0  # callbacks are told of its end
    ended: int = 0  # and are done; 0: the step did not come to its end
    end: int = 0  # 0: the next step has not begun
    is_last: bool = False  # of its epoch: `end` is when something else begins
    handle: object = None
    finished: tuple[int, ...] = ()  # when each device had computed it; empty: when its call returned
    computed: tuple[tuple[Interval, ...], ...] = ()  # when each device did, as it was found out

    def callbacks(self) -> tuple[Interval, Interval]:
        return (self.start, self.called), (self.returned, self.ended)


class StepRecord(NamedTuple):
    """What became of a window."""

    window: Window
    parts: Parts
    rows: int
    num_bytes: int
    call_seconds: float
    read_seconds: float
    put_seconds: float


@dataclass(frozen=True)
class EpochRecord:
    """An epoch from its begin to the end of its `on_epoch_end`, and the validation in it, in nanoseconds."""

    epoch: int
    start: int
    end: int
    validation: int


class Accounts:
    """Takes spans as they are left, and windows once they are closed and computed."""

    def __init__(self, begin_ns: int, tracks: tuple[str, ...], keep_steps: int) -> None:
        self.begin_ns = begin_ns
        self.table = StepTable(len(tracks))
        self._tracks = tracks
        self._kept: deque[Span] = deque(maxlen=_SPANS_PER_STEP * keep_steps)
        self._windows: deque[Window] = deque(maxlen=keep_steps)
        self._taken: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._waits: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._calls: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._puts: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._sums: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._read_by_batch: dict[float, deque[Span]] = {}
        self._put_by_batch: dict[float, deque[Span]] = {}
        self._busy: list[Interval] = []
        self._finished = [begin_ns] * len(tracks)

    def spans(self) -> tuple[Span, ...]:
        """Everything of the newest steps, and what was left between them."""
        windows = list(self._windows)
        oldest = windows[0].start if windows else self.begin_ns
        kept = [span for span in self._kept.copy() if span.end_ns >= oldest]
        found = [span._replace(track=self._tracks[0]) if span.name == ALL_REDUCE else span for span in kept]
        return (*found, *(span for window in windows for span in self._spans_of(window)))

    def take(self, spans: list[Span]) -> None:
        """Sort spans that others have left by what they are to a step."""
        self._kept.extend(spans)
        for span in spans:
            name = span.name
            if name == "wait":
                self._waits.append(span)
                self._taken.append(span)
            elif name == "step":
                self._calls.append(span)
            elif name == ALL_REDUCE:
                self._sums.append(span)
            elif name == "put":
                self._puts.append(span)
                _remember(self._put_by_batch, span)
            elif name == "read":
                _remember(self._read_by_batch, span)
            if span.track == MAIN and (name == "read" or name == "put"):
                # Without staging the training thread does both by itself: they are in the step's way.
                self._waits.append(span)
                if name == "put":
                    self._taken.append(span)

    def enter(self, window: Window) -> StepRecord:
        """The row of a window; it must be closed, and all spans of its time taken."""
        start, limit, callbacks = window.start, window.end, window.callbacks()
        waits = _leave(self._waits, start, limit, callbacks)
        calls = _leave(self._calls, start, limit, callbacks)
        call = calls[0] if calls else (window.called, window.returned)
        pauses = merged(waits) if len(waits) > 1 else waits
        self._compute(window, call, pauses)
        end = min(limit, max(window.ended, *self._finished)) if window.is_last else limit
        parts = split(
            start,
            end,
            busy=self._busy,
            sums=_leave(self._sums, start, limit, callbacks),
            callbacks=callbacks,
            waits=waits,
            puts=[(span.start_ns, span.end_ns) for span in takewhile(lambda put: put.start_ns < end, self._puts)],
        )
        self._busy = [interval for interval in self._busy if interval[1] > end]
        while self._puts and self._puts[0].end_ns <= end:
            self._puts.popleft()
        window.end = end
        self._windows.append(window)
        return self._record(window, parts, call, pauses)

    def _compute(self, window: Window, call: Interval, pauses: list[Interval]) -> None:
        """Note when the devices computed this step: from its call, or from their last finish, on; never while it waits."""
        given = window.finished or (call[1],)
        computed = []
        for index, before in enumerate(self._finished):
            start, finish = call[0] if call[0] > before else before, given[index if index < len(given) else -1]
            times = without([(start, finish)], pauses) if start < finish else []
            if finish > before:
                self._finished[index] = finish
            self._busy += times
            computed.append(tuple(times))
        window.computed = tuple(computed)

    def _record(self, window: Window, parts: Parts, call: Interval, pauses: list[Interval]) -> StepRecord:
        read_ns = put_ns = rows = num_bytes = 0
        batches = self._batches(call, window.callbacks())
        if len(batches) > 1:
            batches = list(set(batches))
        window.batches = len(batches) or window.batches  # of a generator Keras does not know when it ends
        for batch in batches:
            put, read = _recall(self._put_by_batch, batch, call[1]), _recall(self._read_by_batch, batch, call[1])
            if put is not None:
                put_ns += put.end_ns - put.start_ns
                rows += int(put.numbers.get("rows", 0))
                num_bytes += int(put.numbers.get("bytes", 0))
            if read is not None:
                read_ns += read.end_ns - read.start_ns
        call_seconds = length(without([call], pauses)) / 1e9
        record = StepRecord(window, parts, rows, num_bytes, call_seconds, read_ns / 1e9, put_ns / 1e9)
        self.table.append(
            (
                window.epoch,
                window.first,
                window.batches,
                rows,
                num_bytes,
                (window.start - self.begin_ns) / 1e9,
                (window.end - window.start) / 1e9,
                *[part / 1e9 for part in parts],
                call_seconds,
                record.read_seconds,
                record.put_seconds,
            ),
            [length(times) / 1e9 for times in window.computed],
        )
        return record

    def _batches(self, call: Interval, callbacks: tuple[Interval, Interval]) -> list[float]:
        """The batches of a step: those taken during its call, or else (Keras takes them on PyTorch) the one before it."""
        own: list[float] = []
        last: Span | None = None
        while self._taken and self._taken[0].start_ns < call[1]:
            span = self._taken.popleft()
            if span.start_ns >= call[0]:
                own.append(span.numbers.get("batch", -1))
            elif not _inside(span, callbacks):
                last = span
        return own or ([] if last is None else [last.numbers.get("batch", -1)])

    def _spans_of(self, window: Window) -> Iterator[Span]:
        (begun, called), (returned, ended) = window.callbacks()
        yield Span(STEPS, f"step {window.first}", window.start, window.end, {"epoch": window.epoch})
        yield Span(CALLBACKS, "on_train_batch_begin", begun, called, {})
        yield Span(CALLBACKS, "on_train_batch_end", returned, ended, {})
        for track, times in zip(self._tracks, window.computed, strict=True):
            for start, end in times:
                yield Span(track, COMPUTE, start, end, {"step": window.first})


def _remember(by_batch: dict[float, deque[Span]], span: Span) -> None:
    """Keep spans by the number of their batch: of a few hundred, since a batch is soon taken."""
    batch = span.numbers.get("batch", -1)
    if batch in by_batch:
        by_batch[batch].append(span)
        return
    by_batch[batch] = deque((span,), _MOST_EPOCHS)
    if len(by_batch) > _MOST_BATCHES:
        del by_batch[next(iter(by_batch))]


def _recall(by_batch: dict[float, deque[Span]], batch: float, end: int) -> Span | None:
    """The newest span of a batch that began before a time; numbers begin anew with every epoch."""
    spans, found = by_batch.get(batch), None
    while spans and spans[0].start_ns < end:
        found = spans.popleft()
    if not spans:
        by_batch.pop(batch, None)
    return found


def _leave(spans: deque[Span], start: int, end: int, callbacks: tuple[Interval, Interval]) -> list[Interval]:
    """Take out all that began before `end`; gives those from `start` on that are not of somebody else's work."""
    found = []
    while spans and spans[0].start_ns < end:
        span = spans.popleft()
        if span.start_ns >= start and not _inside(span, callbacks):
            found.append((span.start_ns, span.end_ns))
    return found


def _inside(span: Span, callbacks: tuple[Interval, Interval]) -> bool:
    """Whether it is of a `fit` or `evaluate` inside a callback."""
    begin, end = callbacks
    return begin[0] <= span.start_ns < begin[1] or end[0] <= span.start_ns < end[1]
