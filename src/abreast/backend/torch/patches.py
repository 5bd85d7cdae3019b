"""Code that a script puts into installed packages: methods of their classes, functions of their modules.

A worker imports the packages without such code, so the code is sent to it.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.backend.torch.python_same import is_plain
from abreast.backend.torch.users_code import is_users

# The packages whose modules are searched, because a model's steps run their code.
_SEARCHED = {"keras", "keras_hub", "keras_cv", "keras_nlp", "torch", "torchvision", "transformers"}
# Parts of packages whose code runs only in the script's process, or only while a model is compiled or tested.
_ASIDE = {
    *("callbacks", "saving", "datasets", "applications", "visualization", "export", "data_adapters", "wrappers"),
    *("_dynamo", "_inductor", "_functorch", "_refs", "fx", "testing", "onnx", "_export", "distributed"),
}
# Methods that no step calls.
_BETWEEN_STEPS = {
    *("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch", "compile", "summary"),
    *("save", "save_weights", "load_weights", "export", "quantize", "get_config", "from_config", "__init__", "__new__"),
    *("make_train_function", "make_test_function", "make_predict_function", "get_weights", "set_weights"),
}

Patches = dict[Any, set[str]]  # modules and classes, and the names in them

_MISSING = object()

# A place that was patched once stays watched: the script may restore the original.
_KNOWN: Patches = {}


def find() -> None:
    """Note each place in the packages' modules and classes that holds the user's code."""
    for owner, name in _places():
        note(owner, name)


def known() -> Patches:
    """The places that hold, or once held, code or values of the user."""
    return {owner: {*names} for owner, names in _KNOWN.items()}


def note(owner: Any, name: str) -> None:
    if name not in _BETWEEN_STEPS:
        _KNOWN.setdefault(owner, set()).add(name)


def names(owner: Any) -> set[str]:
    """The patched names of a module or a class."""
    return _KNOWN.get(owner, set())


def replaced(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The attributes of a class that the script replaced or restored."""
    both = (before.keys() | now.keys()) - _BETWEEN_STEPS
    differing = [name for name in both if before.get(name, _MISSING) is not now.get(name, _MISSING)]
    return [name for name in differing if any(_counts(name, each.get(name, _MISSING)) for each in (before, now))]


def _counts(name: str, value: Any) -> bool:
    # Under such names, Python and its libraries store plain values of their own, for example `__slotnames__`.
    return is_code_of_the_user(value) if name.startswith("__") else is_of_the_user(value)


def is_of_the_user(value: Any) -> bool:
    """Whether a worker may lack a value that a package holds: a plain value, the user's code, or a class with such code."""
    return is_plain(value) or is_code_of_the_user(value) or (isinstance(value, type) and value in _KNOWN)


def is_elsewhere(name: str, value: Any) -> bool:
    """Whether a package's module holds code of a package under another name than its own, as a script may have put it there."""
    return isinstance(value, functools.partial) or (
        type(value) in (types.FunctionType, type) and value.__name__ != name
    )


def is_code_of_the_user(value: Any) -> bool:
    """Whether a function, or the function in a method, a property or a partial, is the user's."""
    kind: Any = type(value)  # not `isinstance`: some modules hold objects that warn when they are asked for `__class__`
    if issubclass(kind, (classmethod, staticmethod)):
        return is_code_of_the_user(value.__func__)
    if issubclass(kind, (functools.partial, functools.partialmethod)):
        return is_code_of_the_user(value.func)
    if issubclass(kind, property):
        return any(is_code_of_the_user(each) for each in (value.fget, value.fset))
    if kind is not types.FunctionType:
        return False
    module = str(value.__globals__.get("__name__"))
    return not module.startswith("namedtuple_") and is_users(module)


def _places() -> Iterator[tuple[Any, str]]:
    for module_name, module in [*sys.modules.items()]:
        if _is_searched(module_name) and isinstance(module, types.ModuleType):
            for name, value in [*vars(module).items()]:
                if is_code_of_the_user(value):
                    yield module, name
                elif issubclass(type(value), type) and vars(value).get("__module__") == module_name:
                    attributes = [*vars(value).items()]
                    yield from ((value, each) for each, held in attributes if is_code_of_the_user(held))


def _is_searched(module_name: str) -> bool:
    top, *rest = module_name.split(".")
    return top in _SEARCHED and not _ASIDE.intersection(rest)
