"""`leaves`: the results of a script as named NumPy arrays, numbers and texts that can be compared. Imports Keras late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def leaves(value: Any, name: str = "result") -> dict[str, Any]:
    """Arrays and texts by name: of a model its weights and its optimizer's variables, of a `History` every series."""
    import keras

    if isinstance(value, keras.Model):
        return _of_model(value, name)
    if isinstance(value, keras.callbacks.History):
        return leaves(value.history, name)
    if isinstance(value, keras.Variable):
        return {name: np.asarray(keras.ops.convert_to_numpy(value))}
    if isinstance(value, Mapping):
        return _joined(leaves(each, f"{name}/{key}") for key, each in value.items())
    if isinstance(value, list | tuple | set):
        return _of_sequence(list(value), name)
    if value is None or isinstance(value, str | bytes):
        return {name: str(value)}
    return {name: np.asarray(keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value)}


def _of_model(model: Any, name: str) -> dict[str, Any]:
    variables = _variables(model.weights, f"{name}/weights")
    if getattr(model, "optimizer", None) is not None:
        variables += _variables(model.optimizer.variables, f"{name}/optimizer")
    return _joined(leaves(variable, each) for each, variable in variables)


def _variables(variables: Iterable[Any], name: str) -> list[tuple[str, Any]]:
    return [(f"{name}/{index} {variable.name}", variable) for index, variable in enumerate(variables)]


def _of_sequence(values: list[Any], name: str) -> dict[str, Any]:
    if values and all(isinstance(value, int | float | np.number) for value in values):
        return {name: np.asarray(values, "float64")}
    length = {f"{name}/length": np.asarray(len(values))}
    return length | _joined(leaves(value, f"{name}/{index}") for index, value in enumerate(values))


def _joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}
