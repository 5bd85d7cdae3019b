"""The cost of a checkpoint, by `benchmarks/checkpoint_cost.py`: the time that training waits for one, and steps between two."""

from __future__ import annotations

import importlib
import statistics
from typing import Any

from benchmarks.gpu.place import Found, Place

_MILLIONS = {"gpu": 100, "cpu": 5}
_SAMPLES, _TURNS = 3, 8
_MOST_SECONDS = 1.2  # 2 % of a minute
_WAYS = ("BackupAndRestore", "model.save")


def run(place: Place) -> Found:
    cost: Any = importlib.import_module("checkpoint_cost")
    cell = {"backend": place.backend, "devices": place.devices, "gpu": not place.simulated}
    millions = _MILLIONS[place.kind]
    saved = cost.save(cell | {"millions": millions, "samples": _SAMPLES})
    steps = cost.steps(cell | {"turns": _TURNS})
    return verdict(saved, cost.ratios(steps), millions, place)


def verdict(saved: dict[str, Any], between: dict[str, float], millions: float, place: Place) -> Found:
    """`between`: the ratio of a step between two checkpoints to one without, and its control."""
    medians = {way: statistics.median(saved[way]) for way in ("abreast", *_WAYS, "write", "restore")}
    slower = [way for way in _WAYS if medians["abreast"] > medians[way]]
    problems = [f"a checkpoint takes longer than {way}" for way in slower]
    problems += [f"the training waits for {medians['abreast']:.1f} s"] if medians["abreast"] > _MOST_SECONDS else []
    others = ", ".join(f"{way} {medians[way]:.2f}" for way in _WAYS)
    figure = f"{millions:g} million: {medians['abreast']:.2f} s, {others}; between {between['ratio']:.3f}x"
    facts = {"seconds": {way: saved[way] for way in medians}, "first_seconds": saved["first_seconds"]}
    return Found(figure, facts | {"between": between}, tuple(problems if place.judges_time else []))
