"""The variables of a model, its metrics and its optimizers by name: read as arrays, and set again.

Variables are matched by their order, because Keras numbers the layers of a process: `dense_1` may be `dense_3` in a notebook.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from abreast.backend import current_backend
from abreast.checkpoints.anew import ANEW
from abreast.errors import CheckpointError
from abreast.feed import array_digest
from abreast.state import grouped_variables

Wanted = Callable[[Mapping[str, int]], Iterable[str]]
_NONE: Mapping[str, Any] = {}
_GROUPS = ("model", "metrics", "optimizer")


def read(model: Any, spare: Mapping[str, Any] = _NONE, wanted: Wanted = iter) -> dict[str, Any]:
    """Copies of all variables and buffers, between two steps; names begin with their group, as in `model/dense/kernel`.

    `spare`: unused arrays from an earlier call, to copy into: to get new memory may take longer than the copy.
    `wanted`: a function from the number of elements of each variable, by name, to the names to copy; by default all.
    """
    instruments, named = current_backend().instruments, _named(model)
    num_elements = {name: math.prod(variable.shape) for name, variable in named.items()}
    sums = instruments.read_sums(model)
    instruments.rest(model)
    found = {name: _copy(named[name], spare.get(name)) for name in wanted(num_elements)}
    instruments.write_sums(sums, model)  # undo `rest`: a sum of sums rounds differently
    names = {id(variable): name for name, variable in named.items()}
    found |= {f"sums/{names[id(variable)]}": parts for variable, parts in sums}
    return found | {f"buffers/{name}": value for name, value in instruments.read_buffers(model).items()}


def read_changed_by_validation(model: Any) -> dict[str, Any]:
    """Copies of the variables that a validation changes: metrics, and untrained variables such as the seeds of layers."""
    current_backend().instruments.rest(model)
    layers = model._flatten_layers()
    own = {id(each) for layer in layers for each in layer._non_trainable_variables}
    own |= {id(each.state) for layer in layers for each in layer._seed_generators}
    return {
        name: _copy(variable)
        for name, variable in _named(model).items()
        if name.startswith("metrics/") or id(variable) in own
    }


def checksum(model: Any) -> int:
    """A checksum of a model's variables, outside steps."""
    found = 0
    for variable in model.variables:
        found = array_digest(keras.ops.convert_to_numpy(variable), found)
    return found


def write(model: Any, arrays: Mapping[str, Any]) -> None:
    """Set the variables that `read` returned. If the model has other variables, raises `CheckpointError` and sets nothing."""
    instruments = current_backend().instruments
    instruments.rest(model)
    check(model, arrays)
    named = _of_variables(arrays)
    variables = dict(zip(named, _named(model).values(), strict=True))
    for name, variable in variables.items():
        variable.assign(named[name])
    instruments.keep_assigned(model)
    instruments.write_sums([(variables[name], parts) for name, parts in _below("sums/", arrays).items()], model)
    instruments.write_buffers(model, _below("buffers/", arrays))


def check(model: Any, arrays: Mapping[str, Any]) -> None:
    """Raise `CheckpointError` if a checkpoint's variables differ from the model's in order, name or shape."""
    saved, own = _of_variables(arrays), _named(model)
    for (name, value), (own_name, variable) in zip(saved.items(), own.items(), strict=False):
        shape, own_shape = tuple(value.shape), tuple(variable.shape)
        if without_numbers(name) != without_numbers(own_name) or shape != own_shape:
            raise CheckpointError(
                f"the checkpoint has {name} of shape {shape}, where this model has {own_name} of shape {own_shape}",
                _HINT,
            )
    if len(saved) != len(own):
        raise CheckpointError(f"the checkpoint has {len(saved)} variables, this model has {len(own)}", _HINT)


def _below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _of_variables(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arrays.items() if name.partition("/")[0] in _GROUPS}


_HINT = f"build and compile the model of the checkpoint, or {ANEW}"


def _copy(variable: Any, spare: Any = None) -> Any:
    value = current_backend().instruments.view(variable)
    if spare is None or (spare.shape, spare.dtype) != (value.shape, value.dtype):
        return np.array(value, order="C")
    np.copyto(spare, value)
    return spare


def _named(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group, variable in grouped_variables(model):
        found[_unused(f"{group}/{variable.path}", found)] = variable
    return found


def _unused(name: str, names: Mapping[str, Any]) -> str:
    number = 1
    while (numbered := name if number == 1 else f"{name}#{number}") in names:
        number += 1
    return numbered


def without_numbers(text: str) -> str:
    """A text without the numbers that Keras gives to layers of one kind."""
    return re.sub(r"_\d+(?=[\W_]|$)", "", text)
