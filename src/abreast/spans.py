"""Spans: named intervals of time that the feed, steps and callbacks record while there is a listener.

Without a listener, which is usual, a span costs one comparison. Not here: adding spans up (`timeline/accounts.py`).
"""

from __future__ import annotations

from typing import NamedTuple

MAIN = "main"  # the thread that runs `fit`
READER = "reader"  # the thread that reads batches from their source
STAGER = "stager"  # the thread that cuts batches and begins their copies to the devices


class Span(NamedTuple):
    """`name` happened on `track` from `start_ns` to `end_ns` (`time.perf_counter_ns`).

    A track is one of the above, or a device such as `cpu:0`.
    """

    track: str
    name: str
    start_ns: int
    end_ns: int
    numbers: dict[str, float]

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


_new = tuple.__new__  # faster than `Span(...)`, for the spans of every step

# One list per listener; every recorded span is appended to each. If it is empty, there is no need to measure times.
LISTENERS: tuple[list[Span], ...] = ()


def leave(track: str, name: str, start_ns: int, end_ns: int, **numbers: float) -> None:
    """Record a span with every listener. Any thread may call this. Times are from `time.perf_counter_ns`."""
    span = _new(Span, (track, name, start_ns, end_ns, numbers))
    for spans in LISTENERS:
        spans.append(span)


def listen(spans: list[Span]) -> None:
    """Append every span to `spans` from now on, until `ignore`."""
    global LISTENERS
    LISTENERS = (*LISTENERS, spans)


def ignore(spans: list[Span]) -> None:
    """Stop appending to `spans`."""
    global LISTENERS
    LISTENERS = tuple(other for other in LISTENERS if other is not spans)
