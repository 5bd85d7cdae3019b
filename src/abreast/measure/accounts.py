"""From spans and the times of callbacks to one row per step: which spans belong to a step, and what was hidden.

Runs in the recorder's thread, step after step, in order. Not here: how one step is split (`step_parts.py`), who hears the
spans (`recorder.py`). Imports `spans`, `step_parts` and `step_table`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from abreast.measure.intervals import Interval, length, merged, without
from abreast.measure.spans import MAIN, READER, STAGER, Span
from abreast.measure.step_parts import Parts, split
from abreast.measure.step_table import StepTable

ALL_REDUCE = "all-reduce"
COMPUTE = "compute"
CALLBACKS = "callbacks"
STEPS = "steps"
_FEED_TRACKS = {MAIN, READER, STAGER}
_SPANS_PER_STEP = 64  # that are kept, at most
_MOST_WAITING = 8192  # spans for the next step: a long validation leaves many, which are of no step


@dataclass(slots=True)
class Window:
    """A training step as the training thread saw it: from one `on_train_batch_begin` to the next, in nanoseconds."""

    epoch: int
    first: int
    start: int
    last: int = 0
    called: int = 0  # callbacks have begun the batch: the step function is next
    returned: int = 0  # callbacks are told of its end
    ended: int = 0  # and are done; 0: the step did not come to its end
    end: int = 0  # 0: the next step has not begun
    is_last: bool = False  # of its epoch: `end` is when something else begins
    handle: object = None
    finished: tuple[int, ...] = ()  # when each device had computed it; empty: when its call returned

    def callbacks(self) -> list[Interval]:
        return [(self.start, self.called), (self.returned, self.ended)]


@dataclass(frozen=True)
class StepRecord:
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
        self._spans: deque[Span] = deque(maxlen=_SPANS_PER_STEP * keep_steps)
        self._tracks = tracks
        self._starts: deque[int] = deque(maxlen=keep_steps)
        self._taken: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._waits: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._calls: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._puts: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._sums: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._read = _Newest()
        self._put = _Newest()
        self._busy: list[Interval] = []
        self._finished = [begin_ns] * len(tracks)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Those of the newest steps."""
        oldest = self._starts[0] if self._starts else self.begin_ns
        return tuple(span for span in self._spans.copy() if span.end_ns >= oldest)

    def take(self, spans: Iterable[Span]) -> None:
        """Sort spans that others have left by what they are to a step."""
        for span in spans:
            self._spans.append(span)
            if span.name == "step" and span.track == MAIN:
                self._calls.append(span)
            elif span.name == ALL_REDUCE:
                self._sums.append(span)
                self._spans[-1] = span._replace(track=self._tracks[0])
            elif span.track in _FEED_TRACKS:
                self._take_of_feed(span)

    def _take_of_feed(self, span: Span) -> None:
        """Without staging, the training thread reads and puts by itself: then both are in the step's way."""
        if span.name == "wait" or span.track == MAIN:
            self._waits.append(span)
        if span.name == "wait" or (span.name == "put" and span.track == MAIN):
            self._taken.append(span)
        if span.name == "put":
            self._puts.append(span)
            self._put.add(span)
        elif span.name == "read":
            self._read.add(span)

    def enter(self, window: Window) -> StepRecord:
        """The row of a window; it must be closed, and all spans of its time taken."""
        start, limit, callbacks = window.start, window.end, window.callbacks()
        waits, calls, sums = (
            [span for span in _leave(spans, start, limit) if not _inside(span, callbacks)]
            for spans in (self._waits, self._calls, self._sums)
        )
        call = (calls[0].start_ns, calls[0].end_ns) if calls else (window.called, window.returned)
        pauses = merged((span.start_ns, span.end_ns) for span in waits)
        device_seconds = self._compute(window, call, pauses)
        finished = max(self._finished)
        end = min(limit, max(window.ended, finished)) if window.is_last else limit
        parts = split(
            start,
            end,
            busy=self._busy,
            sums=[(span.start_ns, span.end_ns) for span in sums],
            callbacks=callbacks,
            waits=pauses,
            puts=[(span.start_ns, span.end_ns) for span in self._puts if span.end_ns > start],
        )
        self._busy = [interval for interval in self._busy if interval[1] > end]
        while self._puts and self._puts[0].end_ns <= end:
            self._puts.popleft()
        window.end = end
        record = self._record(window, parts, self._batches(call, callbacks), length(without([call], pauses)))
        self._append(record, device_seconds)
        return record

    def _compute(self, window: Window, call: Interval, pauses: list[Interval]) -> list[float]:
        """Note when the devices computed this step, from its call or their last finish on; gives seconds by device."""
        given = window.finished or (call[1],)
        seconds = []
        for index, track in enumerate(self._tracks):
            start, finish = max(call[0], self._finished[index]), given[min(index, len(given) - 1)]
            times = without([(start, finish)], pauses) if start < finish else []
            self._finished[index] = max(finish, self._finished[index])
            self._busy.extend(times)
            self._spans.extend(Span(track, COMPUTE, a, b, {"step": window.first}) for a, b in times)
            seconds.append(length(times) / 1e9)
        return seconds

    def _batches(self, call: Interval, callbacks: list[Interval]) -> list[float]:
        """The batches of a step: those taken during its call, or else (Keras takes them on PyTorch) the one before it."""
        taken = [span for span in _leave(self._taken, 0, call[1]) if not _inside(span, callbacks)]
        own = [span for span in taken if span.start_ns >= call[0]] or taken[-1:]
        return [span.numbers.get("batch", -1) for span in own]

    def _record(self, window: Window, parts: Parts, batches: list[float], call_ns: int) -> StepRecord:
        put = [span for batch in batches if (span := self._put.of(batch)) is not None]
        read = [span for batch in batches if (span := self._read.of(batch)) is not None]
        return StepRecord(
            window,
            parts,
            rows=sum(int(span.numbers.get("rows", 0)) for span in put),
            num_bytes=sum(int(span.numbers.get("bytes", 0)) for span in put),
            call_seconds=call_ns / 1e9,
            read_seconds=sum(span.seconds for span in read),
            put_seconds=sum(span.seconds for span in put),
        )

    def _append(self, record: StepRecord, device_seconds: list[float]) -> None:
        window, parts = record.window, record.parts
        self.table.append(
            (
                window.epoch,
                window.first,
                window.last - window.first + 1,
                record.rows,
                record.num_bytes,
                (window.start - self.begin_ns) / 1e9,
                sum(parts) / 1e9,
                *(part / 1e9 for part in parts),
                record.call_seconds,
                record.read_seconds,
                record.put_seconds,
            ),
            device_seconds,
        )
        self._keep(window)

    def _keep(self, window: Window) -> None:
        """Keep the spans of the newest steps, and of older ones those that happen to be left behind younger ones."""
        (begun, called), (returned, ended) = window.callbacks()
        self._spans.append(Span(STEPS, f"step {window.first}", window.start, window.end, {"epoch": window.epoch}))
        self._spans.append(Span(CALLBACKS, "on_train_batch_begin", begun, called, {}))
        self._spans.append(Span(CALLBACKS, "on_train_batch_end", returned, ended, {}))
        self._starts.append(window.start)
        while self._spans and self._spans[0].end_ns < self._starts[0]:
            self._spans.popleft()


class _Newest:
    """The newest span of each batch, by its number: a few hundred, since a batch is soon taken."""

    def __init__(self) -> None:
        self._spans: dict[float, Span] = {}

    def add(self, span: Span) -> None:
        self._spans[span.numbers.get("batch", -1)] = span
        if len(self._spans) > 512:
            del self._spans[next(iter(self._spans))]

    def of(self, batch: float) -> Span | None:
        return self._spans.pop(batch, None)


def _leave(spans: deque[Span], start: int, end: int) -> list[Span]:
    """Take out all that began before `end`; gives those that began at `start` or later."""
    found = []
    while spans and spans[0].start_ns < end:
        span = spans.popleft()
        if span.start_ns >= start:
            found.append(span)
    return found


def _inside(span: Span, intervals: list[Interval]) -> bool:
    """Whether it is of somebody else's work: a `fit` or `evaluate` inside a callback."""
    return any(start <= span.start_ns < end for start, end in intervals)
