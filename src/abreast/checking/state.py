"""The compared arrays, by group and name: a model's weights, the variables of its optimizers, and the numbers of logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from abreast.checking.log import plain_array

Arrays = dict[tuple[str, str], Any]


def state_of(model: Any) -> Arrays:
    """Copies of a model's variables (group "weight") and of its optimizers' variables (group "optimizer")."""
    found: Arrays = {}
    for variable in _variables(model):
        _add(found, "weight", variable)
    for name, optimizer in _optimizers(model):
        for variable in optimizer.variables:
            _add(found, "optimizer", variable, name)
    return found


def numbers_of(logs: Mapping[str, Any]) -> Arrays:
    """The numbers of logs, or the lists of a `History` (group "log"). Other content is left out."""
    arrays = {name: np.asarray(value) for name, value in logs.items()}
    return {("log", name): array.astype("float64") for name, array in arrays.items() if array.dtype.kind in "fiub"}


def _variables(model: Any) -> list[Any]:
    """A model's variables, except those of metrics and of random generators, which may differ between devices."""
    metrics = {id(variable) for variable in model.metrics_variables}
    kept = {id(v): v for v in model.variables if id(v) not in metrics and "seed_generator_state" not in v.path}
    return list(kept.values())


def _optimizers(model: Any) -> list[tuple[str, Any]]:
    """The compiled optimizer, with an empty name, and others that the model holds, with the name of their attribute."""
    kind = keras.optimizers.Optimizer
    found = {id(value): (name, value) for name, value in vars(model).items() if isinstance(value, kind)}
    if isinstance(getattr(model, "optimizer", None), kind):
        found[id(model.optimizer)] = ("", model.optimizer)
    return list(found.values())


def _add(found: Arrays, group: str, variable: Any, owner: str = "") -> None:
    name = f"{owner}/{variable.path}" if owner else variable.path
    count = 2
    while (group, name) in found:  # layers made without a name may share one
        name, count = f"{variable.path} ({count})", count + 1
    found[group, name] = plain_array(np.array(variable))
