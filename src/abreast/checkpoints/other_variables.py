"""Variables of Keras objects that are not the model in training: a teacher, an averaged copy, a metric of a callback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from abreast import exact
from abreast.state import grouped_variables
from abreast.stderr import tell_once

_KINDS = (
    keras.Layer,
    keras.Variable,
    keras.metrics.Metric,
    keras.optimizers.Optimizer,
    keras.random.SeedGenerator,
)


def has_variables(value: Any) -> bool:
    """Whether a value is a Keras object that may have variables."""
    return isinstance(value, _KINDS)


def holds_variables(value: Any) -> bool:
    """Whether a value is a non-empty container of such objects only."""
    return isinstance(value, list | tuple | dict) and bool(value) and all(map(has_variables, exact.values_of(value)))


class OtherVariables:
    """The variables of a Keras object, except those of the model in training; `own` returns the identities of the latter."""

    def __init__(self, value: Any, own: Callable[[], set[int]]) -> None:
        self._value = value
        self._own = own

    def read(self) -> list[Any]:
        return [np.array(keras.ops.convert_to_numpy(each)) for each in self._variables()]

    def write(self, arrays: Sequence[Any]) -> None:
        """Set the values that `read` returned; reports variables that do not fit."""
        if len(self._variables()) != len(arrays):
            _build_optimizers(self._value)
        variables = self._variables()
        if [tuple(each.shape) for each in variables] != [each.shape for each in arrays]:
            name = f"{type(self._value).__name__} {self._value.name}"
            tell_once(
                f"the checkpoint has {len(arrays)} variables of {name}, which a callback uses, and the script has made "
                f"{len(variables)} of that shape: they stay as the script makes them\n"
                "hint: build it before fit"
            )
            return
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)

    def _variables(self) -> list[Any]:
        own = self._own()
        return [each for each in _of(self._value) if id(each) not in own]


def _build_optimizers(value: Any) -> None:
    """Make the variables that a model's first step makes."""
    for optimizer in exact.optimizers(value) if isinstance(value, keras.Model) else ():
        if not optimizer.built:
            optimizer.build(value.trainable_variables)


def _of(value: Any) -> list[Any]:
    if isinstance(value, keras.Variable):
        return [value]
    if isinstance(value, keras.random.SeedGenerator):
        return [value.state]
    if isinstance(value, keras.Model):
        return [variable for _, variable in grouped_variables(value)]
    return list(value.variables)
