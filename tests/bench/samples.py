"""Invented measurements, as `abreast bench` would write them."""

from __future__ import annotations

from typing import Any

from abreast.bench.cases import Case

MACHINE: dict[str, Any] = {"system": "Linux x86_64", "cpu": "Some CPU", "cores": 8, "memory_bytes": 2**36}
GPUS = MACHINE | {"gpus": ["Some GPU"] * 8}
PARTS = {"wait": 0.001, "copy": 0.002, "compute": 0.08, "all_reduce": 0.015, "callbacks": 0.0005, "rest": 0.0015}


def case(devices: int = 1, **changes: Any) -> Case:
    facts: dict[str, Any] = {"model": "resnet50", "backend": "jax", "devices": devices, "rows": 64 * devices}
    return Case(**facts | changes)


def line(
    devices: int, seconds: float, side: str = "abreast", *, machine: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """A step of about `seconds`, plus or minus five percent."""
    found: dict[str, Any] = {
        "benchmark": "bench",
        "case": case(devices, **changes).key(side),
        "unit": "seconds per step",
        "median": seconds,
        "quartiles": [0.95 * seconds, 1.05 * seconds],
        "num_samples": 5,
        "command": "abreast bench resnet50",
        "commit": "0123456789ab",
        "date": "2026-01-01T00:00:00Z",
        "machine": GPUS if machine is None else machine,
        "versions": {"keras": "3.15.1"},
    }
    if side == "abreast":
        found["step_parts_seconds"] = {name: part * seconds / 0.1 for name, part in PARTS.items()}
        found["all_reduce_told"] = True
    return found


def scaling() -> list[dict[str, Any]]:
    """Abreast and Keras on 1, 2, 4 and 8 devices; a step of abreast takes 100, 105, 110 and 125 ms."""
    mine = [line(devices, seconds) for devices, seconds in ((1, 0.1), (2, 0.105), (4, 0.11), (8, 0.125))]
    theirs = [line(devices, seconds, "keras") for devices, seconds in ((1, 0.099), (2, 0.12), (4, 0.15), (8, 0.2))]
    return mine + theirs


def predictions() -> list[dict[str, Any]]:
    about = {"model": "resnet50", "backend": "jax"}
    points = ((1, 0.1), (2, 0.103), (4, 0.112), (8, 0.13), (16, 0.15))
    return [
        {"case": about | {"devices": devices}, "median": seconds, "interval": [0.9 * seconds, 1.1 * seconds]}
        for devices, seconds in points
    ]
