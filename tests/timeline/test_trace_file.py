"""The trace as a file: the requirements of the published format, and of its readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast.samplers.sample import DeviceSample
from abreast.spans import MAIN, READER, Span
from abreast.timeline.trace_file import write_trace
from tests.timeline.trace_format import faults

SPANS = [
    Span(MAIN, "step", 2_000, 9_000, {"kind": 0}),
    Span(MAIN, "wait", 2_500, 4_000, {"batch": 0}),
    Span(READER, "read", 1_000, 3_000, {"batch": 0}),
    Span(READER, "read", 2_000, 5_000, {"batch": 0}),  # of another feed's thread
    Span("gpu:0", "compute", 4_000, 8_000, {}),
]
SAMPLES = [DeviceSample("gpu:0", 1_500, 0.5, 1 << 30, 1980.0), DeviceSample("cpu", 1_600, 0.1, 1 << 20)]


def written(path: Path) -> Any:
    write_trace(path / "trace.json", SPANS, (MAIN, READER, "gpu:0"), SAMPLES, {"notes": ""})
    return json.loads((path / "trace.json").read_text())


def test_the_trace_is_of_the_published_format(tmp_path: Path) -> None:
    assert faults(written(tmp_path)) == []


def test_values_that_a_driver_does_not_report_are_left_out(tmp_path: Path) -> None:
    """A MIG instance knows no utilisation; a NaN in the file would be no JSON."""
    samples = [DeviceSample("gpu:0", 1_500, float("nan"), 1 << 30), SAMPLES[1]]
    write_trace(tmp_path / "trace.json", SPANS, (), samples)
    content = json.loads((tmp_path / "trace.json").read_text(), parse_constant=pytest.fail)
    assert faults(content) == []
    counters = [event["name"] for event in content["traceEvents"] if event["ph"] == "C"]
    assert counters == ["gpu:0 memory", "cpu utilisation", "cpu memory"]


@pytest.mark.parametrize(
    "damage",
    [
        {"ph": "Z"},
        {"ts": -1.0},
        {"dur": float("nan")},
        {"tid": "main"},
        {"dur": 7.0},  # past the end of the span around it
        {"tid": 99},
    ],
    ids=str,
)
def test_a_damaged_trace_is_noticed(tmp_path: Path, damage: dict[str, Any]) -> None:
    content = written(tmp_path)
    wait = next(event for event in content["traceEvents"] if event["name"] == "wait")
    wait.update(damage)
    assert faults(content)


def test_times_are_microseconds_from_the_first(tmp_path: Path) -> None:
    events = written(tmp_path)["traceEvents"]
    step = next(event for event in events if event["name"] == "step")
    assert (step["ts"], step["dur"]) == (1.0, 7.0)


def test_every_track_is_a_named_thread_in_its_order(tmp_path: Path) -> None:
    events = written(tmp_path)["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == [MAIN, READER, f"{READER} (2)", "gpu:0"]
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert counters == {"gpu:0 utilisation", "gpu:0 memory", "gpu:0 clock", "cpu utilisation", "cpu memory"}
