"""Which optimizers of a model have their variables, and for which variables of the model they were made.

A step of the user's may have optimizers that no other one has made variables for: they exist from its first call on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast import exact


def read(model: Any) -> list[list[int] | None]:
    """For each optimizer, the numbers of the variables that it trains; None for one that has not been built."""
    numbers = {id(variable): number for number, variable in enumerate(model.variables)}
    return [
        [numbers[id(each)] for each in optimizer._trainable_variables if id(each) in numbers]
        if optimizer.built
        else None
        for optimizer in exact.optimizers(model)
    ]


def build(model: Any, saved: Sequence[Sequence[int] | None]) -> None:
    """Build each optimizer that was built where `read` returned this, if the model has those variables."""
    variables = model.variables
    for optimizer, numbers in zip(exact.optimizers(model), saved, strict=False):
        if numbers is not None and not optimizer.built and all(number < len(variables) for number in numbers):
            optimizer.build([variables[number] for number in numbers])
