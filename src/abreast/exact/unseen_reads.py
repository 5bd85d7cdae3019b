"""Search for calls that read a tensor of TensorFlow unseen: those of other packages' functions and objects, such as NumPy's.

Python's own functions and methods of a tensor are not among them: the backend sees their reads. Imports no framework.
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections import ChainMap
from collections.abc import Iterator
from typing import Any

import numpy as np

from abreast.exact.members import members
from abreast.exact.users_code import functions_in_steps
from abreast.exact.warn_once import warn_once
from abreast.users_functions import inner_codes, is_above_keras, is_of_other_package, outer_values, package_of

_MAKE_ARRAYS = {"arange", "broadcast_shapes", "empty", "eye", "finfo", "full", "iinfo", "linspace", "ones", "zeros"}
_OF_NO_VALUES = {*_MAKE_ARRAYS, "errstate", "ndim", "prod", "random", "shape", "size"}
# Packages that only show what they get.
_SHOW = {"absl", "loguru", "matplotlib", "mlflow", "rich", "structlog", "tensorboardX", "tqdm", "wandb"}
_NUMBERS = (np.ndarray, np.generic, np.random.Generator, np.random.RandomState)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, np.ufunc)
_LOADS = ("LOAD_GLOBAL", "LOAD_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CALLS = ("CALL", "CALL_KW")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT", "KW_NAMES", "PUSH_NULL", "PRECALL", "CACHE")


def announce_unseen_reads(model: Any, kind: str) -> None:
    """Warn, once per model, of such a call in the user's layers, losses or step of this kind."""
    name = next(calls_of_other_packages(model, kind), None)
    if name is not None:
        warn_once(
            model,
            "unseen reads",
            f"the code of {type(model).__name__} calls {name}, and runs eagerly: abreast does not see whether that reads values "
            "of tensors. What the code decides by values of its rows, each device decides by its own rows. Use keras.ops: "
            "abreast sees what they read",
        )


def calls_of_other_packages(model: Any, kind: str) -> Iterator[str]:
    """The names of functions and objects of other packages that the user's code calls in a step of a kind."""
    attributes = _attributes(model)
    for function in functions_in_steps(model, kind):
        yield from _calls(function, attributes)


def _attributes(model: Any) -> dict[str, list[Any]]:
    """The functions and objects of other packages in the attributes of a model's layers and of their classes, by name."""
    found: dict[str, list[Any]] = {}
    for member in members(model):
        for space in [vars(member), *(vars(kind) for kind in type(member).__mro__ if is_above_keras(kind))]:
            for name, value in space.items():
                if not isinstance(value, type) and _may_read(value):
                    found.setdefault(name, []).append(value)
    return found


def _may_read(value: Any) -> bool:
    """Whether calls of a function, a class or the methods of an object read what they get, and nobody sees it."""
    if isinstance(value, (types.ModuleType, *_NUMBERS)) or getattr(value, "__name__", None) in _OF_NO_VALUES:
        return False
    return is_of_other_package(value) and package_of(value) not in _SHOW


def _calls(function: Any, attributes: dict[str, list[Any]]) -> Iterator[str]:
    """The names of functions, classes and objects of other packages that a function calls, as it writes them."""
    known = ChainMap(outer_values(function), function.__globals__)
    for code in _codes(function.__code__):
        operations = list(dis.get_instructions(code))
        imported = dict(_imported(operations))
        for index, first in enumerate(operations):
            if first.opname in _LOADS or (first.opname == "LOAD_FAST" and first.argval in imported):
                values = [imported.get(first.argval) or known.get(first.argval)]
            else:
                values = attributes.get(first.argval, []) if first.opname in _ATTRIBUTES else []
            for value in values:
                names, value, last = _followed(value, operations, index)
                is_called = _is_called(operations, index) or _is_called(operations, last)
                # Code may also hand on a function as a value.
                is_used = is_called or (isinstance(value, _FUNCTIONS) and first.opname not in _ATTRIBUTES)
                gets_values = not (is_called and _are_constants(operations[last + 1 :]))
                if is_used and gets_values and _OF_NO_VALUES.isdisjoint(names) and _may_read(value):
                    yield ".".join(names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in inner_codes(code):
        yield from _codes(inner)


def _imported(operations: list[dis.Instruction]) -> Iterator[tuple[str, Any]]:
    """Local names and the modules, functions and classes that a function imports under these names."""
    module: Any = None
    value: Any = None
    for each in operations:
        if each.opname == "IMPORT_NAME":
            module = value = sys.modules.get(each.argval)
        elif each.opname == "IMPORT_FROM":
            value = getattr(module, each.argval, None)
        elif each.opname in ("STORE_FAST", "STORE_DEREF") and value is not None:
            yield each.argval, value
            value = None


def _followed(value: Any, operations: list[dis.Instruction], first: int) -> tuple[list[str], Any, int]:
    """The names from operation `first` on, through attributes of modules, to a function, a class or a method of an object.

    Also the function, the class or the object, and the index of the last operation.
    """
    names, last = [operations[first].argval], first
    for each in itertools.takewhile(lambda each: each.opname in _ATTRIBUTES, operations[first + 1 :]):
        if isinstance(value, (type, *_FUNCTIONS)):
            break
        names, last = [*names, each.argval], last + 1
        if not isinstance(value, types.ModuleType):
            break
        value = getattr(value, each.argval, None)
    return names, value, last


def _is_called(operations: list[dis.Instruction], index: int) -> bool:
    """Whether what an operation loads is called. How Python marks this depends on its version."""
    operation = operations[index]
    is_marked = operation.opname == "LOAD_METHOD" or "NULL" in operation.argrepr
    return is_marked or any(each.opname == "PUSH_NULL" for each in operations[index + 1 : index + 2])


def _are_constants(following: list[dis.Instruction]) -> bool:
    """Whether a call gets nothing except constants."""
    rest = itertools.dropwhile(lambda each: each.opname in _CONSTANTS, following)
    return any(each.opname in _CALLS for each in itertools.islice(rest, 1))
