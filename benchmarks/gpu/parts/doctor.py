"""The doctor on planted causes: causes on any device, and causes that only a GPU has. The first finding must name the cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from benchmarks.gpu.place import Found, Place


@dataclass(frozen=True)
class Plant:
    """`name` is a function of `tests/doctor/plants.py`, `cause` what the first finding must be."""

    name: str
    cause: str
    settings: dict[str, Any] = field(default_factory=dict)
    on_gpus_only: bool = False


# The most important first: a time limit leaves out the last.
PLANTS = (
    Plant("reading", "slow-reading", {"ms": 80}),
    Plant("float32_layers", "precision", {"rows": 8192, "width": 4096}, on_gpus_only=True),
    Plant("float_images", "copy-bound", {"size": 128}, on_gpus_only=True),
    Plant("callback", "slow-callbacks", {"ms": 30}),
)


def run(place: Place) -> Found:
    from tests.doctor.bodies import run_case
    from tests.doctor.cases import Planted

    place.prepare()
    found: dict[str, Any] = {}
    longest, late = 0.0, []
    for plant in plants_for(place):
        if longest > place.left_seconds():
            late.append(plant.name)
            continue
        case = Planted(place.backend, plant.name, plant.cause, place.devices, plant.settings)
        found[plant.name] = diagnosed(partial(run_case, asdict(case), fix=False), plant.cause, place)
        longest = max(longest, found[plant.name]["seconds"])
    return verdict(found, late, place)


def diagnosed(diagnose: Callable[[], dict[str, Any]], cause: str, place: Place) -> dict[str, Any]:
    """A diagnosis, and a second one if the first names another cause and there is time: other programs may have disturbed it."""
    found = diagnose()
    is_named = [finding["cause"] for finding in found["findings"]][:1] == [cause]
    return found if is_named or place.left_seconds() < found["seconds"] else diagnose()


def plants_for(place: Place) -> list[Plant]:
    return [plant for plant in PLANTS if not (plant.on_gpus_only and place.simulated)]


def verdict(found: dict[str, Any], late: list[str], place: Place) -> Found:
    problems, told = [], []
    for plant in plants_for(place):
        if plant.name not in found:
            continue
        causes = [finding["cause"] for finding in found[plant.name]["findings"]]
        told.append(f"{causes[0] if causes else 'nothing'} {found[plant.name]['seconds']:.0f} s")
        if causes[:1] != [plant.cause]:
            problems.append(f"{plant.name}: {', '.join(causes) or 'nothing'} is found, not {plant.cause}")
    absent = [f"no time for the causes {', '.join(late)}"] if late else []
    if place.simulated:
        only_there = ", ".join(plant.cause for plant in PLANTS if plant.on_gpus_only)
        absent.append(f"a GPU: the causes {only_there}")
    return Found(", ".join(told), {"diagnoses": found}, tuple(problems), tuple(absent))
