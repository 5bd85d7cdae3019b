"""Shapes of well-known models: parameters, tensors, and the units of their rates.

They are in `models.json`, each with its source. Any other model is described by its parameter count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from abreast.errors import DataError
from abreast.nearest import did_you_mean, letters_of

_PARAMETERS_PER_TENSOR = 200e3
_MOST_TENSORS = 100_000


@dataclass(frozen=True)
class Model:
    """A model. `tensor_sizes`: parameters per tensor in forward order, if known. `flops_per_row`: for one row, forward."""

    name: str
    num_parameters: float
    num_tensors: int
    items_per_row: Mapping[str, float] = field(default_factory=dict)  # by unit of a rate, as tokens per sentence
    ragged: bool = False
    batch_norms: bool = False
    flops_per_row: float | None = None
    tensor_sizes: tuple[int, ...] = ()
    source: str = ""

    @property
    def sizes(self) -> tuple[float, ...]:
        """Parameters per tensor in forward order; equal sizes if they are not known."""
        return self.tensor_sizes or (self.num_parameters / self.num_tensors,) * self.num_tensors


def find_model(name: str) -> Model:
    """A model that ships, by any spelling of its name."""
    found = _spelled(name)
    if found is None:
        hint = f"{did_you_mean(name, models(), 'abreast plan --list')} Or give `--parameters 25.6e6`"
        raise DataError(f"no model is called {name!r}", hint)
    return found


def is_known(name: str) -> bool:
    return _spelled(name) is not None


def same_model(first: str, second: str) -> bool:
    """Whether two names are spellings of one model."""
    known = _spelled(first), _spelled(second)
    return known[0] is known[1] if all(known) else letters_of(first) == letters_of(second)


def model_of(num_parameters: float, num_tensors: int | None = None, name: str = "the model") -> Model:
    """A model whose size alone is known."""
    if not (1 <= num_parameters < 1e13 and num_parameters == int(num_parameters)):
        raise DataError(
            f"--parameters {num_parameters:g} is not allowed", "a whole number above zero and below 1e13, as 25.6e6"
        )
    if num_tensors is not None:
        return with_tensors(Model(name, num_parameters, 1), num_tensors)
    tensors = max(1, min(400, round(num_parameters / _PARAMETERS_PER_TENSOR)))
    return Model(name, num_parameters, tensors)


def with_tensors(model: Model, num_tensors: int) -> Model:
    """The same model with `num_tensors` tensors of equal size."""
    if not 1 <= num_tensors <= min(_MOST_TENSORS, model.num_parameters):
        most = f"{min(_MOST_TENSORS, int(model.num_parameters)):,}"
        raise DataError(
            f"{num_tensors} gradient tensors of {model.name}", f"--tensors is 1 to {most}, each with a parameter"
        )
    return replace(model, num_tensors=num_tensors, tensor_sizes=())


@cache
def models() -> dict[str, Model]:
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("models.json").read_text())
    return {name: _model(name, facts) for name, facts in content.items()}


@cache
def _spellings() -> dict[str, str]:
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("models.json").read_text())
    spelled = {letters_of(other): name for name, facts in content.items() for other in facts.get("also", ())}
    return spelled | {letters_of(name): name for name in content}


def _spelled(name: str) -> Model | None:
    found = _spellings().get(letters_of(name))
    return None if found is None else models()[found]


def _model(name: str, facts: dict[str, Any]) -> Model:
    return Model(
        name,
        float(facts["parameters"]),
        int(facts["tensors"]),
        facts.get("items_per_row", {}),
        bool(facts.get("ragged", False)),
        bool(facts.get("batch_norms", False)),
        facts.get("flops_per_row"),
        tuple(facts.get("tensor_sizes", ())),
        source=str(facts["source"]),
    )
