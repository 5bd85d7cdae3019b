"""The sums of `accounts.py`, moment by moment and step by step: slow, and easy to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from abreast.spans import MAIN, Span
from abreast.timeline.windows import Window


class Parts(NamedTuple):
    wait: int
    copy: int
    compute: int
    all_reduce: int
    callbacks: int
    rest: int


@dataclass
class Step:
    """Numbers of `step_table.STEP`, times in nanoseconds, and the moments that each device computed."""

    batches: int
    rows: int
    num_bytes: int
    wall: int
    parts: Parts
    call: int
    read: int
    put: int
    computed: list[set[int]]


def moments(some: Iterable[tuple[int, int]]) -> set[int]:
    return {moment for begin, end in some for moment in range(begin, end)}


def steps_by_moments(windows: list[Window], spans: list[Span], num_devices: int) -> list[Step]:
    """`spans` in the order in which they ended."""
    waits = [span for span in spans if span.name == "wait" or (span.track == MAIN and span.name in ("read", "put"))]
    puts = of_spans(span for span in spans if span.name == "put")
    batches = Batches(spans)
    in_callbacks: set[int] = set()
    busy: set[int] = set()
    finished = [0] * num_devices
    steps = []
    for window in windows:
        callbacks = moments([(window.start, window.called), (window.returned, window.ended)])
        in_callbacks |= callbacks
        own = [span for span in spans if window.start <= span.start_ns < window.end and span.start_ns not in callbacks]
        calls = [(span.start_ns, span.end_ns) for span in own if span.name == "step"]
        call = min(calls, default=(window.called, window.returned))
        waiting = of_spans(span for span in own if span in waits)
        computed = []
        for device in range(num_devices):
            told = window.finished or (call[1],)
            finish = told[min(device, len(told) - 1)]
            computed.append(moments([(max(call[0], finished[device]), finish)]) - waiting)
            finished[device] = max(finished[device], finish)
        busy = busy.union(*computed)
        end = min(window.end, max(window.ended, *finished)) if window.is_last else window.end
        summing = of_spans(span for span in own if span.name == "all-reduce")
        parts: Counter[str] = Counter()
        for moment in range(window.start, end):
            if moment in summing:
                parts["all_reduce"] += 1
            elif moment in busy:
                parts["compute"] += 1
            elif moment in callbacks:
                parts["callbacks"] += 1
            elif moment in waiting:
                parts["copy" if moment in puts else "wait"] += 1
            else:
                parts["rest"] += 1
        taken = [span for span in waits if span.name != "read" and span.start_ns not in in_callbacks]
        numbers = batches.of(taken, call)
        rows, num_bytes, put = batches.told("put", numbers, call[1])
        _, _, read = batches.told("read", numbers, call[1])
        called = len(moments([call]) - waiting)
        split = Parts(**{name: parts[name] for name in Parts._fields})
        count = len(numbers) or window.batches
        steps.append(Step(count, rows, num_bytes, end - window.start, split, called, read, put, computed))
    return steps


def of_spans(spans: Iterable[Span]) -> set[int]:
    return moments((span.start_ns, span.end_ns) for span in spans)


class Batches:
    """Whose numbers are asked for step after step."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._called_until = -1
        self._asked: dict[tuple[str, float], int] = {}

    def of(self, taken: list[Span], call: tuple[int, int]) -> set[float]:
        """Those taken during a call, or else the last one between the call before and this one."""
        new = [span for span in taken if self._called_until <= span.start_ns < call[1]]
        new.sort(key=lambda span: (span.start_ns, span.name == "put"))  # of two of one moment the put is later
        self._called_until = call[1]
        during = {span.numbers["batch"] for span in new if span.start_ns >= call[0]}
        return during or {span.numbers["batch"] for span in new[-1:]}

    def told(self, name: str, batches: set[float], until: int) -> tuple[int, int, int]:
        """Rows, bytes and nanoseconds: of the newest span of each batch, of those since it was asked for the last time."""
        found = []
        for batch in batches:
            own = [span for span in self._spans if span.name == name and span.numbers["batch"] == batch]
            since = self._asked.get((name, batch), -1)
            found += sorted((span for span in own if since <= span.start_ns < until), key=_start)[-1:]
            self._asked[name, batch] = until
        rows, num_bytes = (sum(int(span.numbers.get(number, 0)) for span in found) for number in ("rows", "bytes"))
        return rows, num_bytes, sum(span.end_ns - span.start_ns for span in found)


def _start(span: Span) -> int:
    return span.start_ns
