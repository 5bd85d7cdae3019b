"""The built optimizers of a model, and the variables of the model that each one trains.

A user's own step may have optimizers that only its first call builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast import exact


def read(model: Any) -> list[list[int] | None]:
    """The indices of the variables that each optimizer trains; None for an optimizer that is not built."""
    numbers = {id(variable): number for number, variable in enumerate(model.variables)}
    return [
        [numbers[id(each)] for each in optimizer._trainable_variables if id(each) in numbers]
        if optimizer.built
        else None
        for optimizer in exact.optimizers(model)
    ]


def build(model: Any, saved: Sequence[Sequence[int] | None]) -> None:
    """Build each optimizer that was built when `read` returned `saved`, if the model has its variables."""
    variables = model.variables
    for optimizer, numbers in zip(exact.optimizers(model), saved, strict=False):
        if numbers is not None and not optimizer.built and all(number < len(variables) for number in numbers):
            optimizer.build([variables[number] for number in numbers])
