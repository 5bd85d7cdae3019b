"""Who did what when: spans of time that feed, steps and callbacks leave while somebody listens.

Mostly nobody does; then a span costs one comparison. Not here: what spans add up to (`accounts.py`). Imports nothing of
abreast.
"""

from __future__ import annotations

from typing import NamedTuple

MAIN = "main"  # the thread that runs `fit`
READER = "reader"  # reads batches from their source
STAGER = "stager"  # cuts batches and begins their copies to the devices


class Span(NamedTuple):
    """`name` happened on `track` (one of the above, or a device as `cpu:0`) from `start_ns` to `end_ns` of one clock."""

    track: str
    name: str
    start_ns: int
    end_ns: int
    numbers: dict[str, float]

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


_new = tuple.__new__  # at every step: without the call that `Span(...)` makes

# The lists that grow by every span that is left: one per listener. Read it before taking a time.
LISTENERS: tuple[list[Span], ...] = ()


def leave(track: str, name: str, start_ns: int, end_ns: int, **numbers: float) -> None:
    """Leave a span with every listener; from any thread, times from `perf_counter_ns`."""
    span = _new(Span, (track, name, start_ns, end_ns, numbers))
    for spans in LISTENERS:
        spans.append(span)


def listen(spans: list[Span]) -> None:
    """Let a list grow by every span from now on, until `ignore`."""
    global LISTENERS
    LISTENERS = (*LISTENERS, spans)


def ignore(spans: list[Span]) -> None:
    global LISTENERS
    LISTENERS = tuple(other for other in LISTENERS if other is not spans)
