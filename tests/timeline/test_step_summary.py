"""Sums of steps, on numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.samplers.sample import DeviceSample
from abreast.timeline.step_parts import PARTS
from abreast.timeline.step_summary import TimelineSummary, summarize
from abreast.timeline.step_table import STEP


def summary(rows: int = 32, **options: Any) -> TimelineSummary:
    """A first step of 10 s that compiles, then three of 100, 200 and 300 ms, of which input takes a quarter."""
    steps = np.zeros(4, STEP)
    steps["wall"] = (10.0, 0.1, 0.2, 0.3)
    steps["wait"], steps["copy"] = 0.2 * steps["wall"], 0.05 * steps["wall"]
    steps["compute"] = 0.75 * steps["wall"]
    steps["rows"], steps["batches"], steps["bytes"] = rows, 1, 4096
    history = {f"{name}_seconds": [1.0] for name in ("total", "validation", "epoch")}
    settings: dict[str, Any] = {"warm_up_steps": 1, "all_reduce_told": True} | options
    return summarize(steps, steps["compute"][:, None], ("cpu:0",), history, **settings)


def test_the_steps_after_the_first_count() -> None:
    found = summary()
    assert found["num_steps"] == 3
    assert found["step_seconds"]["median"] == 0.2
    assert np.allclose(found["step_seconds"]["quartiles"], (0.15, 0.25))
    assert np.isclose(found["starvation"], 0.25)
    assert np.isclose(found["rows_per_second"], 96 / 0.6)
    assert np.isclose(found["parts"]["wait"]["share"], 0.2)
    assert np.isclose(found["compute_seconds"]["cpu:0"]["median"], 0.15)
    assert found["bytes_per_batch"] == 4096


def test_a_run_of_one_step_keeps_it() -> None:
    assert summary(warm_up_steps=4)["num_steps"] == 4


def test_an_unknown_part_is_none_and_not_zero() -> None:
    found = summary(rows=0, all_reduce_told=False)
    assert found["rows_per_second"] is None
    assert found["parts"]["all_reduce"] is None
    assert {name for name in PARTS if found["parts"][name] is None} == {"all_reduce"}


def test_utilisation_without_a_driver_is_none() -> None:
    found = summary(samples=[DeviceSample("gpu:0", 0, float("nan"), 1 << 30)])
    assert found["samples"]["gpu:0"]["utilisation"] is None
    assert "gpu:0: 1,024 MiB at most" in str(found).splitlines()


def test_the_table_has_a_line_per_part() -> None:
    samples = [DeviceSample("gpu:0", 0, 0.5, 1 << 30), DeviceSample("gpu:0", 1, 1.0, 2 << 30)]
    lines = str(summary(samples=samples, notes=["all is well"])).splitlines()
    assert lines[0] == "3 steps, the first 1 left out; medians and quartiles of a step"
    words = [" ".join(line.replace(".0 ms", " ms").split()) for line in lines]
    assert words[1] == "step 200 ms (150 ms to 250 ms)"
    assert words[2] == "waiting for input 40 ms (30 ms to 50 ms) 20%"
    assert "160 rows per second on average" in lines
    assert "devices wait for input 25% of the time" in lines
    assert "gpu:0: 75% busy on average, 2,048 MiB at most" in lines
    assert lines[-1] == "note: all is well"


def test_a_summary_of_no_steps_is_empty() -> None:
    found = summarize(
        np.zeros(0, STEP), np.zeros((0, 1)), ("cpu:0",), {f"{name}_seconds": [] for name in ("total", "validation", "epoch")},
        warm_up_steps=1, all_reduce_told=True,
    )  # fmt: skip
    assert found["num_steps"] == 0
    assert "0 steps" in str(found)
