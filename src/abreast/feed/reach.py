"""`Reach`: the globals, outer variables and objects that some code can read or change.

Two pieces of code that reach the same ones can see each other's changes. Imports no framework.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import keras
import numpy as np

from abreast.feed.values import CONTAINERS, PLAIN, content, is_generator, is_object
from abreast.users_functions import (
    class_values,
    globals_read,
    is_full,
    is_users_class,
    is_users_function,
    is_users_module,
    names_read,
    names_set,
    users_functions,
)

MOST_OBJECTS = 50_000
_MOST_ITEMS = 1_000  # of a container that is compared
_MOST_BYTES = 1 << 18  # of an array that is compared
_PLAIN = frozenset(PLAIN)
_APART = (keras.Layer, keras.Variable, keras.optimizers.Optimizer)  # followed only from the roots
_WITH_HIDDEN = (keras.Layer, keras.losses.Loss, keras.metrics.Metric)  # their `_` attributes are Keras's own

Key = tuple[str, int, str]  # the kind of state, the identity of its owner, and a name


@dataclass(frozen=True)
class State:
    """State that code may change: `name` as the code has it, `read` returns its present content for comparison.

    `is_large`: whether it is compared by its identity or length only.
    """

    name: str
    read: Callable[[], Any]
    is_large: bool = False


class Reach:
    """The values that code reaches from `roots`. `met`: all values, by identity. `names`: all names in the code.

    `is_whole`: whether these are all. Layers, variables and optimizers that are no roots are not followed.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.states: dict[Key, State] = {}
        self.names: set[str] = set()
        self.met: dict[int, Any] = {}
        self.is_whole = True
        self._kinds: set[type] = set()  # whose functions are known
        roots = [*roots]
        self._roots = {id(each) for each in roots}
        self._todo = deque((type(each).__name__, each) for each in roots)
        while self._todo and len(self.met) < MOST_OBJECTS:
            name, value = self._todo.popleft()
            if id(value) not in self.met:
                self.met[id(value)] = value
                self._open(name, value)
        self.is_whole = self.is_whole and not self._todo

    def _open(self, name: str, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._open_function(value)
        elif isinstance(value, types.GeneratorType):
            self._open_generator(value)
        elif isinstance(value, types.MethodType):
            self._follow(name, value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            self._follow(name, value.func, *value.args, *value.keywords.values())
        elif isinstance(value, type):
            if is_users_class(value):
                self._note("class", value, name, lambda: _brief(class_values(value)))
                self._follow(name, *users_functions(value), *class_values(value).values())
        elif isinstance(value, CONTAINERS):
            is_large = len(value) > _MOST_ITEMS and not isinstance(value, (tuple, frozenset))
            self._note("content", value, name, lambda: _brief(value), is_large)
            self._follow_all(name, value.values() if isinstance(value, dict) else value)
        elif (id(value) in self._roots and hasattr(value, "__dict__")) or (
            is_object(value) and not isinstance(value, _APART)
        ):
            self._open_object(name, value)
        elif is_array(value) or is_generator(value):
            self._note("content", value, name, lambda: _brief(value), _is_large_array(value))

    def _open_object(self, name: str, value: Any) -> None:
        self._note("content", value, name, lambda: [(key, _brief(each)) for key, each in _attributes(value)])
        self._todo += [(f"{name}.{key}", each) for key, each in _attributes(value) if not _is_plain(each)]
        if type(value) not in self._kinds:
            self._kinds.add(type(value))
            self._follow(name, *users_functions(type(value)), *filter(is_users_class, type(value).__mro__))

    def _open_function(self, function: types.FunctionType) -> None:
        if not is_users_function(function):
            return
        self._read(function.__code__, function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if is_full(cell):
                self._note("cell", cell, name, functools.partial(_in_cell, cell))
                self._todo.append((name, cell.cell_contents))
        self._follow(function.__name__, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())

    def _open_generator(self, generator: Any) -> None:
        if (frame := generator.gi_frame) is not None:
            self._read(frame.f_code, frame.f_globals)
            self._todo += frame.f_locals.items()

    def _read(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Note the globals that code reads or sets, and the attributes of the user's modules."""
        names = names_read(code)
        self.names |= names
        self._name(space, sorted({*globals_read(code), *names_set(code)}))
        for name in globals_read(code):
            if is_users_module(space.get(name)):
                self._name(vars(space[name]), names)

    def _name(self, space: dict[str, Any], names: Iterable[str]) -> None:
        for name in names:
            if name in space:
                key = "global", id(space), name
                self.states[key] = State(name, functools.partial(_in_space, space, name))
                self._todo.append((name, space[name]))

    def _note(self, kind: str, owner: Any, name: str, read: Callable[[], Any], is_large: bool = False) -> None:
        self.states[kind, id(owner), ""] = State(name, read, is_large)

    def _follow(self, name: str, *values: Any) -> None:
        self._follow_all(name, values)

    def _follow_all(self, name: str, values: Iterable[Any]) -> None:
        found = [(name, each) for each in [*values] if not _is_plain(each)]
        self.is_whole = self.is_whole and len(self.met) + len(self._todo) + len(found) <= MOST_OBJECTS
        self._todo += found if self.is_whole else ()


def _attributes(value: Any) -> list[tuple[str, Any]]:
    has_hidden = isinstance(value, _WITH_HIDDEN)
    return [(name, each) for name, each in vars(value).items() if not (has_hidden and name.startswith("_"))]


def _is_plain(value: Any) -> bool:
    """Whether a value cannot change, and holds none that can."""
    kind = type(value)
    if kind is tuple or kind is frozenset:
        return _PLAIN.issuperset(map(type, value))
    return kind in _PLAIN or isinstance(value, (np.generic, PurePath))


def is_array(value: Any) -> bool:
    """Whether a value is an array of NumPy or a dense tensor of PyTorch."""
    if isinstance(value, np.ndarray):
        return True
    is_torchs = str(type(value).__module__).partition(".")[0] == "torch"
    return is_torchs and hasattr(value, "untyped_storage") and str(value.layout) == "torch.strided"


def _in_cell(cell: Any) -> Any:
    return _brief(cell.cell_contents)


def _in_space(space: dict[str, Any], name: str) -> Any:
    return _brief(space.get(name))


def _brief(value: Any, depth: int = 2) -> Any:
    """A value's content for comparison; the identity of a part of a model or a large array, the length of a large container."""
    if isinstance(value, CONTAINERS):
        if len(value) > _MOST_ITEMS or not depth:
            return len(value)
        if isinstance(value, dict):
            return [(content(key), _brief(each, depth - 1)) for key, each in [*value.items()]]
        return content(value) if isinstance(value, (set, frozenset)) else [_brief(each, depth - 1) for each in [*value]]
    return id(value) if _is_large_array(value) or isinstance(value, (keras.Layer, keras.Variable)) else content(value)


def _is_large_array(value: Any) -> bool:
    return is_array(value) and bool(value.nbytes > _MOST_BYTES)
