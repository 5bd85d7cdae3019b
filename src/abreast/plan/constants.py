"""The fitted constants of the scaling model, with their meaning, as `benchmarks/plan_fit.py` wrote them to `constants.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Interval:
    """Half-widths of the 80 % interval, as logarithms of measured over predicted step time.

    The half-width is `floor`, plus `per_loss` times the loss of the step, plus `assumed` if facts of the machine or the model
    are missing. `shift_low` and `shift_high` multiply it on either side.
    """

    floor: float
    per_loss: float
    assumed: float
    shift_low: float = 1.0
    shift_high: float = 1.0


@dataclass(frozen=True)
class Constants:
    """The constants by name. A name is `kind.which`, such as `exposed.ddp`."""

    values: Mapping[str, float]
    interval: Interval

    def __getitem__(self, name: str) -> float:
        return self.values[name]


def described() -> dict[str, Any]:
    """The whole file: for each constant its value, unit, meaning, and the value expected before any fit."""
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("constants.json").read_text())
    return content


@cache
def shipped() -> Constants:
    content = described()
    values = {name: float(entry["value"]) for name, entry in content["constants"].items()}
    return Constants(values, Interval(**content["interval"]))
