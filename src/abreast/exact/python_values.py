"""The Python values that the code of a model may change: numbers, texts, arrays, and the contents of containers.

They are in attributes of objects, classes, functions and modules, in globals, outer variables and default arguments. Not here:
tensors, which each replica finds apart, and what a dry run restores (`dry_run.py`). Imports no framework.
"""

from __future__ import annotations

import enum
import functools
import itertools
import operator
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from abreast.exact.containers import contents_of, unwrapped, values_of
from abreast.exact.dry_run import is_own
from abreast.exact.members import left_by_calls, name_of_owner
from abreast.users_functions import (
    class_values,
    full_cells,
    functions_of,
    is_above_keras,
    is_users_class,
    is_users_module,
    names_read,
    outer_values,
    texts_in,
)

_MOST_OBJECTS = 100_000
_MOST_ITEMS = (5, 20, 1000)  # of a container, that are compared one by one, from the innermost one to the outermost
_MOST_BYTES = 1 << 16  # of an array
_DEPTH = 3  # of containers in containers
_OF_KERAS = frozenset(("_losses", "_loss_ids"))  # of a layer: the losses of its present call
_PLAIN: tuple[Any, ...] = (bool, int, float, complex, str, bytes, itertools.count)

Names = frozenset[str]
Place = tuple[int, str]  # the number of a space, and a name in it
Marks = dict[Place, Any]
_ABSENT = object()


class _Space(NamedTuple):
    """Some names, of an object, a class, a module or a function, that the user's code may change."""

    owner: str  # "" for globals and outer variables
    read: Callable[[], Mapping[str, Any]]
    names: Names


class PythonValues:
    """The values of the user's Python objects that a model reaches and that its code may change."""

    def __init__(self, model: Any) -> None:
        self._spaces = list(_spaces(model))

    def marks(self) -> Marks:
        """A mark of each present value."""
        return {
            (number, name): _mark(value)
            for number, space in enumerate(self._spaces)
            for name, value in list(space.read().items())
            if name in space.names
        }

    def name(self, place: Place) -> str:
        owner = self._spaces[place[0]].owner
        return f"{owner}.{place[1]}" if owner else place[1]


def thread_locals(model: Any) -> list[Any]:
    """The objects that a model reaches and that have other attributes in each thread."""
    return [each for each in _reached(model) if isinstance(each, threading.local)]


def unlike(marks: Marks, before: Marks) -> list[Place]:
    """The places whose marks are not as before."""
    return [place for place, mark in marks.items() if mark != before.get(place, _ABSENT)]


def _spaces(model: Any) -> Iterator[_Space]:
    """The places of Python values that the user's code, as far as a model reaches it, may change."""
    reached = [each for each in _reached(model) if _may_change(each)]
    functions = [each for each in reached if isinstance(each, types.FunctionType)]
    named = frozenset[str]().union(*(_names(each) for each in functions)) - _OF_KERAS
    for value in reached if named else ():
        if isinstance(value, type):
            yield _Space(value.__name__, functools.partial(class_values, value), named)
        elif isinstance(value, types.FunctionType):
            yield _Space(value.__name__, functools.partial(vars, value), named)
        elif is_above_keras(type(value)) or not named.isdisjoint(vars(value)):
            yield _Space(name_of_owner(value), functools.partial(vars, value), named - {*left_by_calls(value)})
    for space, names in _global_spaces(functions):
        yield _Space("", space, names)


def _global_spaces(functions: list[Any]) -> Iterator[tuple[Callable[[], Mapping[str, Any]], Names]]:
    """The globals and outer variables of functions, defaults that they may change, and attributes of the user's modules."""
    named: dict[int, tuple[dict[str, Any], set[str]]] = {}
    for function in functions:
        names, space = _names(function), function.__globals__
        modules = (vars(each) for each in map(space.get, names) if is_users_module(each))
        for each in (space, *modules):
            named.setdefault(id(each), (each, set()))[1].update(names)
        yield functools.partial(outer_values, function), frozenset(function.__code__.co_freevars)
        yield functools.partial(_defaults, function), frozenset(function.__code__.co_varnames)
    for space, of_all in named.values():
        yield functools.partial(_same, space), frozenset(of_all)


def _same(space: dict[str, Any]) -> dict[str, Any]:
    return space


def _names(function: Any) -> Names:
    return names_read(function.__code__) | texts_in(function.__code__)


def _defaults(function: Any) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(reversed(names), reversed(values), strict=False)), **(function.__kwdefaults__ or {})}


def _reached(model: Any) -> list[Any]:
    """The values that a model holds, and the functions, the classes and the globals of the user that these use."""
    seen: dict[int, Any] = {}
    todo = [model]
    while todo and len(seen) < _MOST_OBJECTS:
        value = unwrapped(todo.pop())
        if type(value) not in _PLAIN and id(value) not in seen:
            seen[id(value)] = value
            todo.extend(_held(value))
    return [*seen.values()]


def _may_change(value: Any) -> bool:
    if isinstance(value, type):
        return is_users_class(value)
    return _is_code(value) if isinstance(value, types.FunctionType) else is_own(value)


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and is_above_keras(value)


def _held(value: Any) -> list[Any]:
    """The values that an object or a function holds, or reads by name."""
    if (contents := contents_of(value)) is not None:
        return values_of(contents)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, keras.Variable):
        return [value.regularizer, value.constraint]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, type):
        return list(class_values(value).values()) if is_users_class(value) else []
    if isinstance(value, types.FunctionType):
        return _used(value) if _is_code(value) else []
    if is_own(value):
        left = left_by_calls(value)
        own = [each for name, each in vars(value).items() if name not in left]
        return [*own, *filter(_is_code, functions_of(type(value))), *type(value).__mro__]
    inner = getattr(value, "__dict__", {}).get("__wrapped__")  # of a `tf.function`
    return [] if inner is None else [inner]


def _used(function: Any) -> list[Any]:
    space = function.__globals__
    named = [space[name] for name in _names(function) if name in space]
    modules = [vars(each) for each in named if is_users_module(each)]
    held = [each[name] for each in modules for name in _names(function) if name in each]
    return [*named, *held, *(cell.cell_contents for cell in full_cells(function)), *_defaults(function).values()]


def _mark(value: Any, depth: int = _DEPTH) -> Any:
    """A mark that differs if a number, a text, an array or the contents of a container does; None for other objects."""
    value = unwrapped(value)
    if isinstance(value, enum.Enum):
        return value._name_
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind.__repr__(value)  # a class of the user may have one of its own
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tobytes() if value.dtype.kind in "biufcSU" and value.nbytes <= _MOST_BYTES else value.shape
    if (contents := contents_of(value)) is not None or isinstance(value, tuple):
        return _mark_of_items(value if contents is None else contents, depth)
    if type(value).__name__.endswith("_iterator"):
        return operator.length_hint(value, -1)
    return None


def _mark_of_items(items: Any, depth: int) -> Any:
    if not depth or len(items) > _MOST_ITEMS[depth - 1] or isinstance(items, set):
        return len(items)
    if isinstance(items, dict):
        return len(items), [(_mark(key, 0), _mark(each, depth - 1)) for key, each in list(items.items())]
    return len(items), [_mark(each, depth - 1) for each in items]
