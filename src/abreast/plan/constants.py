"""The fitted constants of the scaling model, with their meaning: `constants.json` read, nothing more.

`benchmarks/plan_fit.py` writes that file. Imports nothing of abreast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Interval:
    """How far a measured step time is from the predicted one, as the logarithm of their ratio.

    Half-widths of the 80 % interval: `floor` for a step that loses nothing, and `per_loss` times what it loses on top;
    `assumed` more where facts of the machine or the model are missing. `shift` is where the middle lies.
    """

    floor: float
    per_loss: float
    assumed: float
    shift_low: float = 1.0
    shift_high: float = 1.0


@dataclass(frozen=True)
class Constants:
    """Values by name; a name is `kind.which`, as `exposed.ddp`."""

    values: Mapping[str, float]
    interval: Interval

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def with_values(self, values: Mapping[str, float]) -> Constants:
        return replace(self, values={**self.values, **values})


def described() -> dict[str, Any]:
    """The whole file: for each constant its value, unit, meaning, and what was expected before any fit."""
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("constants.json").read_text())
    return content


@cache
def shipped() -> Constants:
    content = described()
    values = {name: float(entry["value"]) for name, entry in content["constants"].items()}
    return Constants(values, Interval(**content["interval"]))
