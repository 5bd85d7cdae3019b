"""Calls in the user's code of other packages' functions and objects, such as NumPy's, that read a tensor of TensorFlow unseen.

Python's own functions and methods of a tensor are not among them: the backend sees their reads. Imports no framework.
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from abreast.exact.members import members
from abreast.exact.users_code import functions_in_steps
from abreast.exact.warn_once import warn_once
from abreast.users_functions import inner_codes, is_of_other_package, outer_values

_MAKE_ARRAYS = {"arange", "broadcast_shapes", "empty", "eye", "finfo", "full", "iinfo", "linspace", "ones", "zeros"}
_PRINT = {"absl", "logging", "matplotlib", "plt", "rich", "tqdm", "wandb"}
_OF_NO_VALUES = {*_MAKE_ARRAYS, *_PRINT, "errstate", "ndim", "prod", "random", "shape", "size"}
_LOADS = ("LOAD_GLOBAL", "LOAD_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_NUMBERS = (np.ndarray, np.generic, np.random.Generator, np.random.RandomState)


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
    attributes = ChainMap(*(vars(each) for each in members(model)))
    for function in functions_in_steps(model, kind):
        yield from _calls(function)
        yield from _calls_of_objects(function, attributes)


def _calls(function: Any) -> Iterator[str]:
    """The names of functions and classes of other packages that a function calls, as it writes them."""
    known = ChainMap(outer_values(function), function.__globals__)
    for code in _codes(function.__code__):
        operations = list(dis.get_instructions(code))
        imported = dict(_imported(operations))
        for index, first in enumerate(operations):
            if first.opname in _LOADS or (first.opname == "LOAD_FAST" and first.argval in imported):
                value = imported.get(first.argval) or known.get(first.argval)
                names, value, last = _followed(value, first, operations[index + 1 :])
                # A function may be passed on as a value. Of a class such as `np.float32`, only a call counts.
                is_used = _is_called(first) or _is_called(last) if isinstance(value, type) else callable(value)
                if is_used and _OF_NO_VALUES.isdisjoint(names) and is_of_other_package(value):
                    yield ".".join(names)


def _calls_of_objects(function: Any, attributes: Mapping[str, Any]) -> Iterator[str]:
    """The names of objects of other packages that a function calls, such as `scaler.transform` and `self.interpolate`."""
    known = ChainMap(outer_values(function), function.__globals__)
    for code in _codes(function.__code__):
        for one, following in itertools.pairwise(dis.get_instructions(code)):
            space = known if one.opname in _LOADS else attributes if one.opname in _ATTRIBUTES else {}
            value = space.get(one.argval)
            if _is_object(value) and is_of_other_package(value):
                if one.opname in _ATTRIBUTES and _is_called(one):
                    yield one.argval
                elif following.opname in _ATTRIBUTES and _is_called(following):
                    yield f"{one.argval}.{following.argval}"


def _is_object(value: Any) -> bool:
    """Whether a value is neither a class, a function nor a number, nor of a package that only shows what it gets."""
    is_other = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, *_NUMBERS))
    return not is_other and type(value).__module__.partition(".")[0] not in _PRINT


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


def _followed(
    value: Any, last: dis.Instruction, following: list[dis.Instruction]
) -> tuple[list[str], Any, dis.Instruction]:
    """The names, the value and the last operation at the end of the attributes of modules that a code reads next."""
    names = [last.argval]
    for each in itertools.takewhile(lambda each: each.opname in _ATTRIBUTES, following):
        if not isinstance(value, types.ModuleType):
            break
        names.append(each.argval)
        value, last = getattr(value, each.argval, None), each
    return names, value, last


def _is_called(operation: dis.Instruction) -> bool:
    """Whether what an operation loads is called. How Python marks this depends on its version."""
    return operation.opname == "LOAD_METHOD" or "NULL" in operation.argrepr
