"""The fingerprint of a model's steps: the settings of its layers, losses, metrics and optimizer, by name.

Processes that run one script compare these settings if no compiled program contains them. Left out are settings that may differ:
names, seeds, ranks, paths, tensors (a step may keep tensors of its own rows), and objects of Python, NumPy and the frameworks.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from abreast import exact

_PARTS = (
    keras.Layer,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
)
_NOT_OF_SCRIPT = {"keras", "tensorflow", "jax", "torch", "numpy", "abreast"}
_OF_A_PROCESS = re.compile("(^|_)(seed|rank)s?[0-9]*($|_)")  # in names of attributes: each process may have its own
# Besides names: attributes that Keras and torch choose themselves, or set while a model is built and called.
_LEFT_OUT = frozenset(
    {
        "name",
        "_name",
        "_path",
        "_parent_path",
        "_parameters",
        "_buffers",
        "_modules",
        "_torch_params",
        "build",
        "built",
        "_built",
        "_called",
        "quantize",
        "call_signature_parameters",
        "_build_shapes_dict",
        "_initial_epoch",
        "_trainable_variables_indices",
        "_weight_decay_by_var_key",  # since Keras 3.16, by identity of the variable
        "_call_has_context_arg",
        "_call_has_mask_arg",
        "_call_has_training_arg",
        "_compiled_trainable_state",
        "_lock",
        "_is_full_backward_hook",
        "_build_input_shape",
        "_losses_override",
        "_input_spec",
        "_flat_losses",
        "_inbound_nodes",
        "_jit_compile",  # of a model inside another model, Keras chooses it when it saves
        "_jax_state",
        "_jax_state_synced",
    }
)
_MODE = ".training"  # attribute of a torch module inside a layer; each call of the layer sets it
_LONGEST = 30  # characters of a text that counts as a setting, at most; longer texts may identify a run
_DEEPEST = 6


def settings(model: Any) -> dict[str, str]:
    """Each setting as a text; the order is the same in all processes."""
    layers = list(model._flatten_layers())
    found = {"number of layers": str(len(layers))}
    known: set[int] = set(map(id, layers))
    for number, layer in enumerate(layers):
        start = f"layer {number} ({type(layer).__name__})"
        found[f"{start} is a"] = _of_type(type(layer))
        found.update(_of_attributes(start, layer, known, 0))
        for place, module in _modules(layer):
            if id(module) not in known:
                known.add(id(module))
                of_module = _of_attributes(f"{start}.{place}", module, known, 0)
                found.update((name, value) for name, value in of_module if not name.endswith(_MODE))
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """The names of the settings that differ between two moments."""
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _modules(layer: Any) -> Iterator[tuple[str, Any]]:
    """The torch modules inside a layer that wraps them, by name."""
    named: Any = () if isinstance(layer, keras.Model) else getattr(layer, "named_modules", tuple)()
    return ((name, each) for name, each in named if not isinstance(each, keras.Layer) and "_torch_params" not in name)


def _of_attributes(start: str, value: Any, known: set[int], depth: int) -> Iterator[tuple[str, str]]:
    of_calls = exact.of_calls(value)
    for name, part in {**_of_class(type(value)), **vars(value)}.items():
        if _is_compared(str(name)) and name not in of_calls:
            yield from _of_value(f"{start}.{name}", part, known, depth)


def _of_class(kind: type) -> dict[str, Any]:
    """The numbers in attributes of the script's own classes; an object may replace them by its own."""
    own = [each for each in reversed(kind.__mro__) if _is_of_script(each)]
    return {name: value for each in own for name, value in vars(each).items() if isinstance(value, bool | int | float)}


@functools.cache
def _is_compared(name: str) -> bool:
    return name not in _LEFT_OUT and not _OF_A_PROCESS.search(name) and not name.startswith("_abreast")


def _of_value(path: str, value: Any, known: set[int], depth: int) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, bool | int | float | complex | np.generic | enum.Enum):
        yield path, repr(value)
    elif isinstance(value, str):
        if len(value) <= _LONGEST and "/" not in value:
            yield path, repr(value)
    elif isinstance(value, np.ndarray):
        if value.dtype != object:
            yield path, f"an array with checksum {_hash(value.tobytes())}"
    elif isinstance(value, types.FunctionType):
        yield path, _of_function(value)
    elif isinstance(value, type):
        yield path, _of_type(value)
    elif depth < _DEEPEST and id(value) not in known:
        known.add(id(value))
        yield from _of_container(path, value, known, depth + 1)


def _of_container(path: str, value: Any, known: set[int], depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _of_value(f"{path}[{index}]", part, known, depth)
    elif isinstance(value, dict):
        for key, part in value.items():
            if _is_compared(str(key)):
                yield from _of_value(f"{path}[{key!r}]", part, known, depth)
    elif isinstance(value, _PARTS) or _is_the_scripts(value):
        yield f"{path} is a", _of_type(type(value))
        yield from _of_attributes(path, value, known, depth)


def _is_the_scripts(value: Any) -> bool:
    return hasattr(value, "__dict__") and _is_of_script(type(value))


def _is_of_script(kind: type) -> bool:
    package = kind.__module__.partition(".")[0]
    return package == "__main__" or (package not in sys.stdlib_module_names | _NOT_OF_SCRIPT)


def _of_type(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _of_function(function: types.FunctionType) -> str:
    """A function by its name, its code, and the plain values that it reads."""
    code = function.__code__
    read = [function.__defaults__, *(_content(cell) for cell in function.__closure__ or ())]
    read += [function.__globals__.get(name) for name in code.co_names if _is_compared(name)]
    plain = [each for each in (*read, *code.co_consts) if isinstance(each, bool | int | float | tuple)]
    text = repr((code.co_code, [each for each in plain if "object at" not in repr(each)]))
    return f"{function.__qualname__} with checksum {_hash(text.encode())}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet set
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
