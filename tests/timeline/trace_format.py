"""The rules of a trace, after the published "Trace Event Format" of Chrome's tracing; `faults` names violations."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

# Of the phases that the format knows, those that we write, with the keys that each must have.
_KEYS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "M": {"name", "ph", "ts", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "args"},
}
_METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def faults(content: Any) -> list[str]:
    """Everything in a JSON object of a trace that the format does not allow."""
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        return ["no list traceEvents"]
    events = content["traceEvents"]
    found = [f"{event}: {fault}" for event in events for fault in _faults_of_event(event)]
    if content.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit")
    return found or _faults_of_threads(events)


def _faults_of_event(event: dict[str, Any]) -> list[str]:
    keys = _KEYS.get(event.get("ph", ""))
    if keys is None:
        return ["phase"]
    found = [] if set(event) == keys else [f"keys {set(event) ^ keys}"]
    found += [key for key in keys & {"pid", "tid"} if not isinstance(event.get(key), int)]
    found += [key for key in keys & {"ts", "dur"} if not _is_time(event.get(key))]
    if not isinstance(event.get("args"), dict):
        return [*found, "args"]
    if event["ph"] == "M" and set(event["args"]) != {_METADATA.get(event["name"])}:
        found.append("metadata")
    if event["ph"] == "C" and not all(_is_number(value) for value in event["args"].values()):
        found.append("counter")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_time(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _faults_of_threads(events: list[dict[str, Any]]) -> list[str]:
    """Complete events of one thread must nest, and the thread must have a name."""
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    found = [f"thread {thread} has no name" for thread in threads if thread not in named]
    for thread, spans in threads.items():
        around: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= start + 1e-6:
                around.pop()
            if around and end > around[-1] + 1e-6:
                found.append(f"thread {thread}: {start} to {end} crosses an end at {around[-1]}")
            around.append(end)
    return found
