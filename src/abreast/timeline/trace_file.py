"""Spans as a trace that Perfetto and `chrome://tracing` open: the JSON of Chrome's trace event format.

Source: "Trace Event Format" (Google). Complete events (`X`) with times in microseconds, a thread per track, metadata
(`M`) that names and sorts the threads, and counters (`C`) for samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from abreast.samplers.sample import DeviceSample
from abreast.spans import Span

_PROCESS = 1
Event = dict[str, Any]


def write_trace(
    path: str | PathLike[str],
    spans: Iterable[Span],
    tracks: Sequence[str],
    samples: Iterable[DeviceSample] = (),
    facts: dict[str, str] | None = None,
) -> Path:
    """Write the trace to `path`, and return the path. `tracks` come first, in this order."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "traceEvents": trace_events(spans, tracks, samples),
        "displayTimeUnit": "ms",
        "otherData": facts or {},
    }
    with target.open("w", encoding="utf-8") as file:
        json.dump(content, file, allow_nan=False)
    return target


def trace_events(spans: Iterable[Span], tracks: Sequence[str], samples: Iterable[DeviceSample] = ()) -> list[Event]:
    """The events; time 0 is the begin of the first span or sample."""
    spans, samples = sorted(spans, key=lambda span: (span.start_ns, -span.end_ns)), list(samples)
    zero = min([*(span.start_ns for span in spans[:1]), *(sample.time_ns for sample in samples)], default=0)
    names = list(dict.fromkeys([*tracks, *(span.track for span in spans)]))
    events: list[Event] = [_metadata("process_name", 0, name="abreast")]
    thread = 0
    for name in names:
        for number, lane in enumerate(_nested_lanes([span for span in spans if span.track == name])):
            thread += 1
            events.append(_metadata("thread_name", thread, name=name if number == 0 else f"{name} ({number + 1})"))
            events.append(_metadata("thread_sort_index", thread, sort_index=thread))
            events += [_complete(span, thread, zero) for span in lane]
    return events + [event for sample in samples for event in _counters(sample, zero)]


def _nested_lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans in lanes. Within a lane each span is nested in an earlier one or starts after it: a trace's thread demands that."""
    lanes: list[list[Span]] = []
    opened: list[list[Span]] = []  # per lane, the spans in which the next span may be nested
    for span in spans:
        for lane, around in zip(lanes, opened, strict=True):
            while around and around[-1].end_ns <= span.start_ns:
                around.pop()
            if not around or span.end_ns <= around[-1].end_ns:
                lane.append(span)
                around.append(span)
                break
        else:
            lanes.append([span])
            opened.append([span])
    return lanes


def _complete(span: Span, thread: int, zero: int) -> Event:
    return {
        "name": span.name,
        "cat": span.track,
        "ph": "X",
        "ts": (span.start_ns - zero) / 1000,
        "dur": (span.end_ns - span.start_ns) / 1000,
        "pid": _PROCESS,
        "tid": thread,
        "args": dict(span.numbers),
    }


def _metadata(kind: str, thread: int, **arguments: Any) -> Event:
    return {"name": kind, "ph": "M", "ts": 0, "pid": _PROCESS, "tid": thread, "args": arguments}


def _counters(sample: DeviceSample, zero: int) -> list[Event]:
    """The sample's values as counter events, except NaN, which JSON cannot represent."""
    values = {
        "utilisation": ("share", sample.utilisation),
        "memory": ("bytes", sample.memory_bytes),
        "clock": ("MHz", sample.clock_mhz),
    }
    return [
        {
            "name": f"{sample.device} {name}",
            "ph": "C",
            "ts": (sample.time_ns - zero) / 1000,
            "pid": _PROCESS,
            "args": {unit: value},
        }
        for name, (unit, value) in values.items()
        if value is not None and math.isfinite(value)
    ]
