"""Classes and functions of a model that the workers import: what has changed in them since the import.

A script or a package may change a class before training: a metaclass wraps a method when the first instance is made. The workers
take over plain values of such a class. Other code is an error, because it has no name by which to send it. So is code of a
module that was loaded anew (`importlib.reload`, a notebook's autoreload): the workers have its first code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import types
from collections.abc import Iterable
from typing import Any

from abreast.backend.torch.pickle_model import is_importable
from abreast.backend.torch.python_same import is_plain
from abreast.errors import ModelError
from abreast.users_functions import function_of, is_above_keras

# name -> "value" and the value, or "code" and what `_described` returns; the name of a function itself is "".
Attributes = dict[str, tuple[str, Any]]
# Checksums of code when the workers first got it, by module, name and attribute.
_first: dict[tuple[str, str, str], str] = {}


def attributes(values: Iterable[Any]) -> dict[tuple[str, str], Attributes]:
    """The attributes of classes and functions among some values, of the values' classes, and of bases, by module and name."""
    values = [*values]
    classes = {*map(type, values), *(each for each in values if isinstance(each, type))}
    kinds: set[Any] = {kind for each in classes for kind in each.__mro__ if _is_looked_at(kind)}
    functions = [each for each in values if isinstance(each, types.FunctionType) and _is_looked_at(each)]
    return {
        (each.__module__, each.__qualname__): {
            name: (how, _described((each.__module__, each.__qualname__, name), value) if how == "code" else value)
            for name, (how, value) in _of(each).items()
        }
        for each in (*kinds, *functions)
    }


def _described(place: tuple[str, str, str], code: types.CodeType) -> tuple[str, int, str]:
    """Name and line of code, which a worker imports by itself, and its checksum if it has changed since the workers first got it.

    Not its checksum in any case: pytest and other import hooks change code in this process only, and not what it computes.
    """
    now = checksum(code)
    return code.co_name, code.co_firstlineno, now if _first.setdefault(place, now) != now else ""


def take_over(classes: dict[tuple[str, str], Attributes]) -> str:
    """In a worker: give its classes the values of rank 0's; return the name of an attribute that has other code, or ""."""
    differing = ""
    for (module, name), expected in classes.items():
        kind = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        own = _of(kind)
        for attribute, (how, value) in expected.items():
            own_how, own_value = own.get(attribute, ("", None))
            if how == own_how and (_is_code(own_value, value) if how == "code" else _are_equal(own_value, value)):
                continue
            if how == "code":
                differing = differing or ".".join(filter(None, (module, name, attribute)))
            else:
                setattr(kind, attribute, value)
    return differing


def other_code(name: str) -> ModelError:
    return ModelError(
        f"{name} is other code here than in the worker processes, which import it: the code was put there later, or its module "
        "was loaded anew",
        "change it where it is defined, and start Python (in a notebook, the kernel) again after a module was loaded anew; or "
        "train with KERAS_BACKEND=tensorflow or jax, which have no worker processes",
    )


def _is_code(code: types.CodeType, described: tuple[str, int, str]) -> bool:
    name, line, changed = described
    return (code.co_name, code.co_firstlineno) == (name, line) and changed in ("", checksum(code))


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _is_looked_at(each: Any) -> bool:
    """Whether workers import this from the user or a package on top of Keras; what the user changes in Keras is sent."""
    return "<locals>" not in each.__qualname__ and is_importable(each) and is_above_keras(each)


def _of(kind: Any) -> Attributes:
    if isinstance(kind, types.FunctionType):
        return {"": ("code", kind.__code__)}
    found: Attributes = {}
    for name, attribute in vars(kind).items():
        value = function_of(attribute)
        if isinstance(value, types.FunctionType):
            found[name] = "code", value.__code__
        elif not name.startswith("__") and is_plain(value):
            found[name] = "value", value
    return found


@functools.lru_cache(maxsize=4096)
def checksum(code: types.CodeType) -> str:
    """Equal for the same code in all processes."""
    consts = [
        checksum(each)
        if isinstance(each, types.CodeType)
        else sorted(map(repr, each))
        if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]
    parts = code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts
    return hashlib.sha256(repr(parts).encode()).hexdigest()
