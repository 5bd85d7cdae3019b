"""The overhead of abreast per step, by `benchmarks/step_overhead.py`: in short steps, where it is largest, and in longer ones."""

from __future__ import annotations

import importlib
import statistics
from typing import Any

from benchmarks.gpu.place import Found, Place

_STEPS = {"gpu": {"mlp": 100, "convnet": 20}, "cpu": {"mlp": 50, "convnet": 4}}  # of a turn
_ROUNDS = 3
_MOST_TIMES = 2.0  # times the slower rival's best step: more is a fault, not overhead


def run(place: Place) -> Found:
    step_overhead: Any = importlib.import_module("step_overhead")
    samples = {}
    for model, steps in _STEPS[place.kind].items():
        cell = {"backend": place.backend, "model": model, "devices": place.devices, "gpu": not place.simulated}
        samples[model] = step_overhead.measure(cell | {"steps": steps, "rounds": _ROUNDS})
    figure = "; ".join(f"{model} {_figure(sides)}" for model, sides in samples.items())
    return Found(figure, {"seconds_per_step": samples}, tuple(problems(samples) if place.judges_time else []))


def problems(samples: dict[str, dict[str, list[float]]]) -> list[str]:
    """Steps whose fastest turn takes far longer than that of the slowest rival."""
    found = []
    for model, sides in samples.items():
        slowest = max(min(values) for name, values in sides.items() if name != "abreast")
        if min(sides["abreast"]) > _MOST_TIMES * slowest:
            found.append(
                f"{model}: {1000 * min(sides['abreast']):.2f} ms a step, the slowest rival {1000 * slowest:.2f}"
            )
    return found


def _figure(sides: dict[str, list[float]]) -> str:
    medians = {name: statistics.median(values) for name, values in sides.items()}
    keras = f", keras {medians['keras'] / medians['native']:.2f}x" if "keras" in medians else ""
    return f"{1000 * medians['abreast']:.2f} ms, {medians['abreast'] / medians['native']:.2f}x native{keras}"
