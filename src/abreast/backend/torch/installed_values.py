"""A part for the settings of installed packages: the plain values in a package that its own code reads in a model's steps.

A worker imports the package itself, and so has the values of the import. Not here: values that the user's code names or replaces
(`python_modules.py`), and settings of the frameworks (`settings.py`). See `python_parts.py`.
"""

from __future__ import annotations

import builtins
import enum
import functools
import importlib
import sys
import types
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from abreast.backend.torch.python_parts import Edit, Part
from abreast.backend.torch.python_same import PLAIN, is_plain, kinds
from abreast.backend.torch.users_code import FRAMEWORKS, is_installed
from abreast.users_functions import full_cells, function_of, globals_read, is_above_keras, names_read, names_set

Place = tuple[str, ...]  # the name of a module, then names of attributes

_NOT_SEARCHED = {*FRAMEWORKS, "accelerate", "psutil", "ray", "scipy", "tqdm"}  # these have values of one process, too
_MOST_OBJECTS = 20_000
_MOST_ITEMS = 1_000
_CONTAINERS = (dict, list, set)
_CODE = (type, types.FunctionType, functools.partial, functools._lru_cache_wrapper)
_MISSING = object()


_State = tuple[list[tuple[Place, Any, str]], list[Any], list[type]]  # places, the values there, and their types


class InstalledValues(Part):
    """The values, by place. `owner`: the `Walk` that found what a model leads to; code of packages is searched from there."""

    def __init__(self, owner: Any) -> None:
        self._search = _Search()
        self._places: list[tuple[Place, Any, str]] = []
        super().__init__(owner)

    def live(self) -> _State:
        if self.owner.new_code:
            self._search.open(self.owner.new_code)
            self.owner.new_code = []
            self._places = _places(self._search)
        values = [space.get(name, _MISSING) for _, space, name in self._places]
        return self._places, values, [*map(type, values)]

    def look(self) -> _State:
        places, values, types_ = self.live()
        return places, [value.copy() if type(value) in _CONTAINERS else value for value in values], types_

    def all_edits(self) -> list[Edit]:
        return [("whole", _by_place(self.seen))]

    def _edits(self, new: Any) -> list[Edit]:
        before, now = _by_place(self.seen), _by_place(new)
        changed = {
            place: value for place, value in now.items() if place not in before or not _is_same(before[place], value)
        }
        return [("whole", changed)] if changed else []

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        for place, value in edit[1].items():
            with suppress(ImportError, AttributeError):  # this process has no such module or object
                _set(_at(place[:-1]), place[-1], value)


def _by_place(state: _State) -> dict[Place, Any]:
    pairs = zip(*state[:2], strict=True)
    return {(*place, name): value for (place, _, name), value in pairs if _is_value(value)}


def _places(search: _Search) -> list[tuple[Place, Any, str]]:
    """The places of values: their holder's, its names, and the value's name there."""
    found = ((place, vars(holder), names) for place, (holder, names) in search.holders.items())
    return [
        (place, space, name)
        for place, space, names in found
        for name in sorted(_public(space) if names is None else names - search.of_process.get(place[0], set()))
        if not name.startswith("__") and (name not in space or _is_value(space[name]))
    ]


def _public(space: Any) -> list[str]:
    return [name for name in space if not name.startswith("_")]


class _Search:
    """A search through the code of installed packages for the holders of values that it reads, by place.

    `of_process`: by module, the names of globals that belong to a process: counts, handles, and notes that they were made.
    """

    def __init__(self) -> None:
        # Modules, classes and objects, each with the names that code reads; None: all of its public names.
        self.holders: dict[Place, tuple[Any, set[str] | None]] = {}
        self.of_process: dict[str, set[str]] = {}
        self._seen: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._todo: deque[Any] = deque()

    def open(self, found: list[Any]) -> None:
        """Search from these functions and classes."""
        self._todo += found
        while self._todo and len(self._seen) < _MOST_OBJECTS:
            value = self._todo.popleft()
            value = value.__func__ if isinstance(value, types.MethodType) else value
            if isinstance(value, _CODE) and self._seen.get(id(value)) is not value:
                self._seen[id(value)] = value
                self._open(value)

    def _open(self, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._read(value)
        elif isinstance(value, functools.partial):
            self._todo += [value.func]
        elif isinstance(value, functools._lru_cache_wrapper):
            self._todo += [value.__wrapped__]
        elif isinstance(value, type) and _is_searched(value.__module__) and not issubclass(value, enum.Enum):
            self._open_class(value)

    def _open_class(self, kind: Any) -> None:
        place = kind.__module__, kind.__name__
        if vars(sys.modules[place[0]]).get(place[1]) is kind:
            self.holders[place] = kind, None
        self._todo += [function_of(each) for base in kind.__mro__ for each in vars(base).values()]

    def _read(self, function: types.FunctionType) -> None:
        """Search the globals that a function reads, attributes of modules, and the variables of outer functions."""
        module, attributes = function.__globals__.get("__name__"), names_read(function.__code__)
        names = [each for each in globals_read(function.__code__) if each not in vars(builtins)]
        self._name(module, function.__globals__, names, attributes)
        for name in attributes:  # imported inside the function
            if name in sys.modules and _is_searched(name):
                self._name(name, vars(sys.modules[name]), attributes & vars(sys.modules[name]).keys(), frozenset())
        self._todo += [cell.cell_contents for cell in full_cells(function)]

    def _note_process(self, module: str) -> None:
        """Note the globals of a module that its functions make, or count, without being given a value."""
        space = vars(sys.modules[module])
        names = self.of_process[module] = set()
        for value in [*space.values()]:
            if isinstance(value, types.FunctionType) and value.__globals__ is space:
                code, made = value.__code__, names_set(value.__code__)
                takes_none = not (code.co_argcount or code.co_kwonlyargcount)
                if (takes_none and made & {*globals_read(code)}) or not all(
                    _is_value(space.get(name)) for name in made
                ):
                    names |= made

    def _name(self, module: Any, space: dict[str, Any], names: Iterable[str], attributes: frozenset[str]) -> None:
        """Search these names of a module, and in the modules that they name these attributes."""
        is_searched = _is_searched(module)
        if is_searched:
            if module not in self.of_process:
                self._note_process(module)
            _, read = self.holders.setdefault((module,), (sys.modules[module], set()))
            assert read is not None
            read.update(names)
        for name in names:
            value = space.get(name)
            if isinstance(value, types.ModuleType):
                present = attributes & vars(value).keys()
                if present and _is_searched(value.__name__):
                    self._name(value.__name__, vars(value), present, attributes - {name})
            elif is_searched and _is_object(value):
                self.holders[module, name] = value, None
                self._todo += [type(value)]
            self._todo += [value]


def _is_searched(module: Any) -> bool:
    """Whether a module is one of an installed package on top of Keras or a framework: others have no settings of steps."""
    top = str(module).partition(".")[0]
    return top not in _NOT_SEARCHED and module in sys.modules and is_installed(module) and _is_on_top(top)


@functools.cache
def _is_on_top(top: str) -> bool:
    names = [name for name in [*sys.modules] if name.partition(".")[0] == top]
    return any(is_above_keras(sys.modules[name]) for name in names if sys.modules[name] is not None)


def _is_object(value: Any) -> bool:
    """Whether a value is an object of a package, with attributes."""
    kind: Any = type(value)
    is_code = issubclass(kind, (type, types.FunctionType, types.ModuleType))
    return not is_code and kind.__dictoffset__ != 0 and _is_searched(kind.__module__)


def _is_value(value: Any) -> bool:
    if type(value) in _CONTAINERS:
        return len(value) <= _MOST_ITEMS and is_plain(value)
    return type(value) in PLAIN


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other) and (isinstance(one, PLAIN) or kinds(one) == kinds(other))


def _at(place: Place) -> Any:
    value = importlib.import_module(place[0])
    for name in place[1:]:
        value = getattr(value, name)
    return value


def _set(holder: Any, name: str, value: Any) -> None:
    """Set a value; a container is filled anew, because other code may hold it. What is no value here stays."""
    old = vars(holder).get(name, _MISSING)
    if old is not _MISSING and (not _is_value(old) or _is_same(old, value)):
        return
    if type(old) is not type(value) or isinstance(value, PLAIN):
        setattr(holder, name, value)
    elif isinstance(value, list):
        old[:] = value
    else:
        old.clear()
        old.update(value)
