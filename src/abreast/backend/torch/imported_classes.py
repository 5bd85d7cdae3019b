"""Classes of a model that the workers import: what has changed in them since the import.

A script or a package may change a class before training, for example a metaclass that wraps a method when the first instance is
made. The workers take over plain values of such a class. Other code is an error, because it has no name by which to send it.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Iterable
from typing import Any

from abreast.backend.torch.pickle_model import is_importable
from abreast.backend.torch.python_same import is_plain
from abreast.errors import ModelError
from abreast.exact.users_functions import function_of, is_above_keras

Attributes = dict[str, tuple[str, Any]]  # name -> "value" and the value, or "code" and where it was defined


def attributes(values: Iterable[Any]) -> dict[tuple[str, str], Attributes]:
    """The attributes of the classes of some values and of their bases, by module and name."""
    kinds = {kind for each in {*map(type, values)} for kind in each.__mro__ if _is_looked_at(kind)}
    return {(kind.__module__, kind.__qualname__): _of(kind) for kind in kinds}


def take_over(classes: dict[tuple[str, str], Attributes]) -> str:
    """In a worker: give its classes the values of rank 0's; return the name of an attribute that has other code, or ""."""
    differing = ""
    for (module, name), expected in classes.items():
        kind = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        own = _of(kind)  # type: ignore[arg-type]
        for attribute, (how, value) in expected.items():
            if _are_equal(own.get(attribute), (how, value)):
                continue
            if how == "code":
                differing = differing or f"{module}.{name}.{attribute}"
            else:
                setattr(kind, attribute, value)
    return differing


def other_code(name: str) -> ModelError:
    return ModelError(
        f"{name} is other code here than in the worker processes, which import its class: the code was put there later",
        "change the class where it is defined; or train with KERAS_BACKEND=tensorflow or jax, which have no worker processes",
    )


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _is_looked_at(kind: type) -> bool:
    """Whether workers import a class of the user or of a package on top of Keras; what the user changes in Keras is sent."""
    return "<locals>" not in kind.__qualname__ and is_importable(kind) and is_above_keras(kind)


def _of(kind: type) -> Attributes:
    found: Attributes = {}
    for name, attribute in vars(kind).items():
        value = function_of(attribute)
        if isinstance(value, types.FunctionType):
            found[name] = "code", (value.__code__.co_name, value.__code__.co_firstlineno)
        elif not name.startswith("__") and is_plain(value):
            found[name] = "value", value
    return found
