"""Steps from a source that takes as long as a step, by `benchmarks/feeding.py`: 1 if the source is hidden, 2 if both add up."""

from __future__ import annotations

import importlib
import statistics
from typing import Any

from benchmarks.gpu.place import Found, Place

_RATES = (0.5, 1.0)
_FITS = {"gpu": {"steps": 20, "rounds": 3}, "cpu": {"steps": 10, "rounds": 1}}
_MOST_TIMES = 1.5  # halfway


def run(place: Place) -> Found:
    feeding: Any = importlib.import_module("feeding")
    cell = {"backend": place.backend, "devices": place.devices, "gpu": not place.simulated, "rates": _RATES}
    found = feeding.measure(cell | {"model": "convnet"} | _FITS[place.kind])
    medians = {
        side: {rate: statistics.median(values) for rate, values in rates.items()} for side, rates in found.items()
    }
    times = {side: medians[side]["1.0"] for side in medians}
    step = 1000 * medians["abreast"]["step"]
    figure = f"{times['abreast']:.2f} of the slower one, keras {times['keras']:.2f}; step {step:.2f} ms"
    return Found(figure, {"times_the_slower": found}, tuple(problems(times["abreast"]) if place.judges_time else []))


def problems(times: float) -> list[str]:
    return [f"{times:.2f} times the slower of source and step"] if times > _MOST_TIMES else []
