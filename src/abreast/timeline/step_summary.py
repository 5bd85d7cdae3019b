"""The summary of a fit's steps: medians, quartiles and shares by part, rows per second, and starvation.

It is a dict that prints as a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from abreast import notebook
from abreast.samplers.sample import DeviceSample
from abreast.timeline.step_parts import COMPUTE_WITH_ALL_REDUCE, LABELS, PARTS
from abreast.units import count, duration, share


class TimelineSummary(dict[str, Any]):
    """The result of `timeline.summary()`: seconds, shares (0 to 1) and speeds by name. It prints as a table.

    Example:
        >>> import abreast
        >>> summary = abreast.Timeline().summary()  # before any `fit`
        >>> type(summary).__name__, summary["num_steps"], summary["rows_per_second"]
        ('TimelineSummary', 0, None)
        >>> sorted(summary["parts"])
        ['all_reduce', 'callbacks', 'compute', 'copy', 'rest', 'wait']
    """

    def __str__(self) -> str:
        return _table(self)

    def _repr_html_(self) -> str:
        return _html(self)


def summarize(
    steps: np.ndarray[Any, Any],
    device_seconds: np.ndarray[Any, Any],
    devices: Sequence[str],
    history: dict[str, list[float]],
    *,
    warm_up_steps: int,
    all_reduce_told: bool,
    samples: Sequence[DeviceSample] = (),
    notes: Sequence[str] = (),
) -> TimelineSummary:
    """Summarize rows of `step_table.STEP`, without the first `warm_up_steps` if there are more."""
    dropped = warm_up_steps if len(steps) > warm_up_steps else 0
    steps, device_seconds = steps[dropped:], device_seconds[dropped:]
    wall = float(steps["wall"].sum(dtype="f8"))
    parts = {name: None if name == "all_reduce" and not all_reduce_told else _part(steps[name], wall) for name in PARTS}
    rows = int(steps["rows"].sum())
    batches = int(steps["batches"].sum())
    return TimelineSummary(
        num_steps=len(steps),
        num_batches=batches,
        warm_up_steps=dropped,
        step_seconds=_spread(steps["wall"]),
        parts=parts,
        starvation=(_total(steps["wait"]) + _total(steps["copy"])) / wall if wall else 0.0,
        rows_per_second=rows / wall if rows and wall else None,
        batches_per_second=batches / wall if wall else None,
        bytes_per_batch=int(steps["bytes"].sum()) // batches if batches else 0,
        compute_seconds={name: _spread(device_seconds[:, index]) for index, name in enumerate(devices)},
        seconds={name: sum(history[f"{name}_seconds"]) for name in ("total", "validation", "epoch")},
        samples=_samples(samples),
        all_reduce_told=all_reduce_told,
        notes=list(notes),
    )


def _part(seconds: np.ndarray[Any, Any], wall: float) -> dict[str, Any]:
    return {**_spread(seconds), "share": _total(seconds) / wall if wall else 0.0}


def _total(seconds: np.ndarray[Any, Any]) -> float:
    return float(seconds.sum(dtype="f8"))


def _spread(seconds: np.ndarray[Any, Any]) -> dict[str, Any]:
    if not len(seconds):
        return {"median": 0.0, "quartiles": (0.0, 0.0)}
    first, median, third = (float(value) for value in np.percentile(seconds, (25, 50, 75)))
    return {"median": median, "quartiles": (first, third)}


def _samples(samples: Sequence[DeviceSample]) -> dict[str, Any]:
    found = {}
    for device in dict.fromkeys(sample.device for sample in samples):
        own = [sample for sample in samples if sample.device == device]
        busy = [sample.utilisation for sample in own if not math.isnan(sample.utilisation)]
        clocks = [sample.clock_mhz for sample in own if sample.clock_mhz is not None]
        found[device] = {
            "num_samples": len(own),
            "utilisation": float(np.mean(busy)) if busy else None,
            "memory_bytes": max(sample.memory_bytes for sample in own),
            "clock_mhz": float(np.mean(clocks)) if clocks else None,
        }
    return found


def _table(summary: TimelineSummary) -> str:
    lines = [f"{_steps(summary)}; medians and quartiles of a step"]
    for number, (label, median, quartiles, part) in enumerate(_rows(summary)):
        times = f"{'  ' * (number > 0) + label:<28}{median:>12}  ({quartiles})"
        lines.append(f"{times:<66}{part:>6}".rstrip())
    if summary["rows_per_second"] is not None:
        lines.append(f"{count(summary['rows_per_second'])} rows per second on average")
    lines.append(f"devices wait for input {share(summary['starvation'])} of the time")
    lines += [f"{device}: {use}" for device, use in _uses(summary).items()]
    return "\n".join([*lines, *(f"note: {note}" for note in summary["notes"])])


def _html(summary: TimelineSummary) -> str:
    facts = {"waiting for input": f"{share(summary['starvation'])} of the time"}
    if summary["rows_per_second"] is not None:
        facts["rows per second, on average"] = count(summary["rows_per_second"])
    notes = {f"note {number}": note for number, note in enumerate(summary["notes"], start=1)}
    heads = ("part of a step", "median", "quartiles", "share")
    return notebook.shown(f"Timeline: {_steps(summary)}", facts | _uses(summary) | notes, heads, _rows(summary))


def _steps(summary: TimelineSummary) -> str:
    dropped = f", the first {summary['warm_up_steps']} left out" if summary["warm_up_steps"] else ""
    return f"{count(summary['num_steps'])} steps{dropped}"


def _uses(summary: TimelineSummary) -> dict[str, str]:
    """Utilisation and memory by device, in words."""
    found = {}
    for device, use in summary["samples"].items():
        busy = "" if use["utilisation"] is None else f"{share(use['utilisation'])} busy on average, "
        found[device] = f"{busy}{use['memory_bytes'] / 2**20:,.0f} MiB at most"
    return found


def _rows(summary: TimelineSummary) -> list[tuple[str, str, str, str]]:
    """Label, median, quartiles and share of a step and of each known part of it."""
    step = summary["step_seconds"]
    rows = [_row("step", step, "", step["median"])]
    for name in PARTS:
        part = summary["parts"][name]
        if part is not None:
            label = COMPUTE_WITH_ALL_REDUCE if name == "compute" and not summary["all_reduce_told"] else LABELS[name]
            rows.append(_row(label, part, share(part["share"]), step["median"]))
    return rows


def _row(label: str, spread: dict[str, Any], part: str, like: float) -> tuple[str, str, str, str]:
    low, high = (duration(value, like) for value in spread["quartiles"])
    return label, duration(spread["median"], like), f"{low} to {high}", part
