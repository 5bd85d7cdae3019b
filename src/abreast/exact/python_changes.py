"""Python values that each replica of a process changes, and one device once: counters, lists that grow, flags that flip.

The replicas take turns with the same Python objects. After a turn, a replica should find the values that the first replica found
after the same turn. Not here: tensors, which each replica finds apart, and what a dry run restores (`dry_run.py`). Imports no
framework.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from abreast.exact.containers import contents_of, unwrapped
from abreast.exact.dry_run import is_own
from abreast.exact.members import left_by_calls, name_of_owner
from abreast.exact.users_functions import (
    class_values,
    full_cells,
    functions_of,
    is_above_keras,
    is_full,
    is_users_class,
    is_users_module,
    names_read,
    texts_in,
)
from abreast.exact.warn_once import warn_once

_MOST_OBJECTS = 100_000
_MOST_ITEMS = 1000  # of a container, that are compared one by one
_MOST_BYTES = 1 << 16  # of an array
_DEPTH = 3  # of containers in containers
_OF_KERAS = frozenset(("_losses", "_loss_ids"))  # of a layer: the losses of its present call
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, itertools.count)

Names = frozenset[str]
Marks = dict[tuple[int, str], Any]  # by the number of a space and a name in it


class _Space(NamedTuple):
    """Some names, of an object, a class, a module or a function, that the user's code may change."""

    owner: str  # "" for globals and outer variables
    read: Callable[[], Mapping[str, Any]]
    names: Names


class PythonChanges:
    """Compares the values after the turns of replicas. `enter(index)` begins a turn of a replica, `enter(None)` ends it."""

    def __init__(self, model: Any, rows: Sequence[int] = ()) -> None:
        """`rows`: the numbers of rows of the replicas, where Python knows them: code that keeps its number counts nothing."""
        self._rows = rows
        self._spaces = list(_spaces(model))
        self._turns: Counter[int] = Counter()
        self._of_first: list[Marks] = []  # after each turn of the first replica
        self._places: dict[tuple[int, str], None] = {}
        self._index: int | None = None

    def enter(self, index: int | None) -> None:
        if self._index is not None and self._spaces:
            self._compare(self._index, self._read())
        self._index = index

    def names(self) -> list[str]:
        """The names of the values that replicas do not find alike."""
        owners = ((self._spaces[number].owner, name) for number, name in self._places)
        return list(dict.fromkeys(f"{owner}.{name}" if owner else name for owner, name in owners))

    def announce(self, model: Any, is_eager: bool) -> None:
        """Warn of the values, once per model."""
        if names := self.names():
            warn_once(model, f"python {names}", f"{', '.join(names)}: {_OF_EACH_STEP if is_eager else _OF_A_TRACE}")

    def _compare(self, index: int, marks: Marks) -> None:
        turn = self._turns[index]
        self._turns[index] += 1
        if index == 0:
            self._of_first.append(marks)
        elif turn < len(self._of_first):
            first = self._of_first[turn]
            unlike = [place for place, mark in marks.items() if mark != first.get(place, _ABSENT)]
            self._places |= dict.fromkeys(place for place in unlike if not self._are_rows(index, place, marks))

    def _are_rows(self, index: int, place: tuple[int, str], marks: Marks) -> bool:
        return bool(self._rows) and marks[place] == repr(self._rows[index])

    def _read(self) -> Marks:
        return {
            (number, name): _mark(value)
            for number, space in enumerate(self._spaces)
            for name, value in list(space.read().items())
            if name in space.names
        }


_ABSENT = object()
_OF_EACH_STEP = (
    "the step changes it in Python, and with run_eagerly every replica does, so it changes once per replica, not once per step. "
    "A variable (add_weight) would be that of one device"
)
_OF_A_TRACE = (
    "the step changes it in Python. Such code runs only while the step is traced, once for each replica, and not at every step: "
    "replicas compute by different values, and other code finds it changed more often than on one device. A variable "
    "(add_weight) would be that of one device"
)


def _spaces(model: Any) -> Iterator[_Space]:
    """The places of Python values that the user's code, as far as a model reaches it, may change."""
    reached = _reached(model)
    functions = [each for each in reached if isinstance(each, types.FunctionType)]
    named = frozenset[str]().union(*(_names(each) for each in functions)) - _OF_KERAS
    for value in reached if named else ():
        if isinstance(value, type):
            yield _Space(value.__name__, functools.partial(class_values, value), named)
        elif isinstance(value, types.FunctionType):
            yield _Space(value.__name__, functools.partial(vars, value), named)
        elif is_own(value):
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
        outer = function.__code__.co_freevars
        yield functools.partial(_outer, function), frozenset(outer)
        yield functools.partial(_defaults, function), frozenset(function.__code__.co_varnames)
    for space, of_all in named.values():
        yield functools.partial(_same, space), frozenset(of_all)


def _same(space: dict[str, Any]) -> dict[str, Any]:
    return space


def _names(function: Any) -> Names:
    return names_read(function.__code__) | texts_in(function.__code__)


def _outer(function: Any) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if is_full(cell)}


def _defaults(function: Any) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(reversed(names), reversed(values), strict=False)), **(function.__kwdefaults__ or {})}


def _reached(model: Any) -> list[Any]:
    """The objects that a model holds, and the functions, the classes and the globals of the user that these use."""
    seen: dict[int, Any] = {}
    todo = [model]
    while todo and len(seen) < _MOST_OBJECTS:
        value = unwrapped(todo.pop())
        if id(value) not in seen:
            seen[id(value)] = value
            todo.extend(_held(value))
    return [each for each in seen.values() if _may_change(each)]


def _may_change(value: Any) -> bool:
    if isinstance(value, type):
        return is_users_class(value)
    return _is_code(value) if isinstance(value, types.FunctionType) else is_own(value)


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and is_above_keras(value)


def _held(value: Any) -> list[Any]:
    """The values that an object or a function holds, or reads by name."""
    if (contents := contents_of(value)) is not None:
        return list(contents.values()) if isinstance(contents, dict) else contents
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
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.dtype.kind in "biufcSU" and value.nbytes <= _MOST_BYTES else value.shape
    if (contents := contents_of(value)) is not None or isinstance(value, tuple):
        return _mark_of_items(value if contents is None else contents, depth)
    if type(value).__name__.endswith("_iterator"):
        return operator.length_hint(value, -1)
    return None


def _mark_of_items(items: Any, depth: int) -> Any:
    if not depth or len(items) > _MOST_ITEMS or isinstance(items, set):
        return len(items)
    if isinstance(items, dict):
        return len(items), [(_mark(key, 0), _mark(each, depth - 1)) for key, each in list(items.items())]
    return len(items), [_mark(each, depth - 1) for each in items]
