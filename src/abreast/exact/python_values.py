"""The Python values that the code of a model may change: numbers, texts, arrays, and the contents of containers.

They are in attributes of objects, classes, functions and modules, in globals, outer variables and default arguments. Not here:
tensors, which each replica finds apart, and what a dry run restores (`snapshot.py`). Imports no framework.
"""

from __future__ import annotations

import enum
import functools
import itertools
import operator
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import keras
import numpy as np

from abreast.exact.containers import CONTAINERS, contents_of, refill, unwrapped, values_of
from abreast.exact.in_place import BUFFERS, Buffered, buffered, refill_buffer, size_of_buffer
from abreast.exact.members import left_by_calls, name_of_owner
from abreast.exact.snapshot import CACHED, is_own
from abreast.keras_private.modules import KERAS, module_of
from abreast.users_functions import (
    HOLDING,
    attributes_set,
    class_values,
    full_cells,
    functions_of,
    has_slots,
    is_above_keras,
    is_mock,
    is_users_class,
    is_users_module,
    modules_read,
    names_read,
    outer_values,
    slots_of,
    texts_in,
)

_MOST_OBJECTS = 100_000
_MOST_ITEMS = (5, 20, 1000)  # of a container, that are compared one by one, from the innermost one to the outermost
_MOST_HELD = 20_000  # items of a container that is put back, and of the containers in it
_MOST_BYTES = 1 << 16  # of an array that is compared
_MOST_HELD_BYTES = 1 << 22  # of an array that is put back
_DEPTH = 3  # of containers in containers that are compared
_HELD_DEPTH = 8  # likewise, that are put back
_GLANCE = 8  # items of a larger container, or 100 times as many of an array, by which a change is seen
_TRAINABLE = "_trainable"  # what code sets as `trainable`
OF_BUILD = frozenset(("built", "_built"))  # Keras sets them where it makes variables
_OF_LAYERS = frozenset(("_losses", "_loss_ids"))  # the losses of a layer's present call
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
    write: Callable[[str, Any], Any] | None  # None for default arguments
    delete: Callable[[str], Any] | None = None
    is_of_optimizer: bool = False
    others: Names | None = None  # the names that do not count, if all other ones do
    unheld: Names = frozenset()

    def present(self, values: Mapping[str, Any]) -> set[str]:
        """The names among `values` that count."""
        return values.keys() & self.names if self.others is None else values.keys() - self.others


class Held(NamedTuple):
    """The value at a place; of a container, also what its items were, and of an array a copy. Of a large one, a `Glance`."""

    value: Any
    contents: Any

    @property
    def items(self) -> list[Held]:
        """The items of a container that is held."""
        return values_of(self.contents) if isinstance(self.contents, dict | list) else []


class Glance(NamedTuple):
    """By this, a change of a container or an array shows that is too large to be put back."""

    size: int
    some: Any


ABSENT = Held(None, None)  # for a place without a value
PLAIN = (bool, int, float, str)


class PythonValues:
    """The values of the user's Python objects that a model reaches and that its code may change."""

    def __init__(self, model: Any) -> None:
        self._spaces = list(_spaces(model))
        # Of objects with plain values: these at the last reading, and what `held` returned. There may be thousands.
        self._last: dict[int, tuple[dict[str, Any], dict[Place, Held]]] = {}

    def marks(self) -> Marks:
        """A mark of each present value."""
        return {
            (number, name): _mark(value)
            for number, space in enumerate(self._spaces)
            for values in (space.read(),)
            for name, value in list(values.items())
            if name in space.present(values)
        }

    def held(self) -> dict[Place, Held]:
        """Each present value, and the contents of containers; whether Keras has built something is no value of the user's."""
        found: dict[Place, Held] = {}
        for number, space in enumerate(self._spaces):
            values, last = space.read(), self._last.get(number)
            if last is not None and _are_identical(values, last[0]):
                found.update(last[1])
                continue
            names = space.present(values) - space.unheld
            new = {(number, name): _copied(values[name], [_MOST_HELD]) for name in names}
            found.update(new)
            self._last.pop(number, None)
            if space.others is not None and all(map(_keeps_nothing, new.values())):
                self._last[number] = dict(values), new
        return found

    def put_back_unless_built(self, held: Mapping[Place, Held], now: Mapping[Place, Held], staying: set[Place]) -> None:
        """`put_back`, except for some places, and for the containers and objects that an optimizer has been built with."""
        built = staying | {
            place for place in now if self._spaces[place[0]].is_of_optimizer and not isinstance(now[place].value, PLAIN)
        }
        held, now = ({place: each for place, each in of.items() if place not in built} for of in (held, now))
        self.put_back(held, now)

    def put_back(self, held: Mapping[Place, Held], now: Mapping[Place, Held]) -> None:
        """Replace what is there `now` by what `held` returned before."""
        for place in differing(held, now):
            self._write(place, held.get(place, ABSENT), now.get(place, ABSENT))

    def _write(self, place: Place, held: Held, now: Held) -> None:
        space, name = self._spaces[place[0]], place[1]
        if held is ABSENT and space.delete is not None:
            space.delete(name)
        elif held is not ABSENT and held.value is not now.value and space.write is not None:
            space.write(name, held.value)
        _refill(held)

    def name(self, place: Place) -> str:
        owner = self._spaces[place[0]].owner
        name = place[1].removeprefix("_") if place[1] == _TRAINABLE else place[1]
        return f"{owner}.{name}" if owner else name


def _keeps_nothing(held: Held) -> bool:
    """Whether a value has no contents, and keeps no memory in use."""
    return held.contents is None and (held.value is None or isinstance(held.value, (type, types.FunctionType, *_PLAIN)))


def _are_identical(values: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return len(values) == len(others) and all(values.get(name, _ABSENT) is value for name, value in others.items())


def thread_locals(model: Any) -> list[Any]:
    """The objects that a model reaches and that have other attributes in each thread."""
    return [each for each in _reached(model) if isinstance(each, threading.local)]


def empty_caches(model: Any) -> list[Any]:
    """The functions under `functools.cache` or `lru_cache` that a model reaches and that hold no result."""
    cached = [each for each in _reached(model) if isinstance(each, CACHED) and _is_code(each.__wrapped__)]
    return [each for each in cached if each.cache_info().currsize == 0]


def unlike(marks: Marks, before: Marks) -> list[Place]:
    """The places whose marks are not as before."""
    return [place for place, mark in marks.items() if mark != before.get(place, _ABSENT)]


def _spaces(model: Any) -> Iterator[_Space]:
    """The places of Python values that the user's code, as far as a model reaches it, may change."""
    reached = [each for each in _reached(model) if _may_change(each)]
    functions = [each for each in reached if isinstance(each, types.FunctionType)]
    named = frozenset[str]().union(*(_names(each) for each in functions))
    named |= {_TRAINABLE} if "trainable" in named else set()
    seen: set[int] = set()  # objects may share their attributes
    for value in reached if named else ():
        if isinstance(value, type):
            write, delete = functools.partial(setattr, value), functools.partial(delattr, value)
            yield _Space(value.__name__, functools.partial(class_values, value), named, write, delete)
        elif isinstance(value, types.FunctionType | types.ModuleType):
            owner = value.__name__ if isinstance(value, types.FunctionType) else ""
            yield _Space(owner, functools.partial(vars, value), named, *_writers(vars(value)))
        else:
            if hasattr(value, "__dict__") and id(vars(value)) not in seen:
                seen.add(id(vars(value)))
                yield from _of_object(value, named)
            if has_slots(value):
                yield _of_slots(value)
    yield from _global_spaces(functions)


def _of_slots(value: Any) -> _Space:
    write, delete = functools.partial(object.__setattr__, value), functools.partial(object.__delattr__, value)
    none = frozenset[str]()
    return _Space(name_of_owner(value), functools.partial(slots_of, value), none, write, delete, others=none)


def _of_object(value: Any, named: Names) -> Iterator[_Space]:
    """The attributes that code may change: those that it names and, of the user's objects, all that Keras does not set."""
    kind: Any = type(value)
    space = vars(value)
    is_kerass, is_layer = module_of(kind).startswith(KERAS), isinstance(value, keras.Layer)
    known: Names | None = None
    if isinstance(value, keras.Variable):  # the backend exchanges its value, a tensor
        named = named - (attributes_set(kind) - {_TRAINABLE})
    elif is_above_keras(kind) or kind.__module__ in _SIMPLE:
        known = attributes_set(kind) if issubclass(kind, _KINDS) else frozenset()
    if known is None and not is_layer and named.isdisjoint(space):
        return
    left = frozenset(left_by_calls(value))
    of_layer = _OF_LAYERS if is_layer else frozenset()
    named = named - left - of_layer
    yield _Space(
        name_of_owner(value),
        functools.partial(vars, value),
        named,
        *_writers(space),
        isinstance(value, keras.optimizers.Optimizer),
        None if known is None else (known - named) | left | of_layer,
        OF_BUILD if is_kerass or known else frozenset(),
    )


# Modules of Python with classes that only hold what code puts into them.
_SIMPLE = ("types", "collections", "argparse", "weakref", "_weakrefset")
# Keras sets attributes of such objects.
_KINDS = (keras.Layer, keras.Operation, keras.optimizers.Optimizer, keras.metrics.Metric, keras.losses.Loss)


def _writers(space: dict[str, Any]) -> tuple[Callable[[str, Any], Any], Callable[[str], Any]]:
    return space.__setitem__, lambda name: space.pop(name, None)


def _set_outer(function: Any, name: str, value: Any) -> None:
    _cell(function, name).cell_contents = value


def _unset_outer(function: Any, name: str) -> None:
    del _cell(function, name).cell_contents


def _cell(function: Any, name: str) -> Any:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))[name]


def _global_spaces(functions: list[Any]) -> Iterator[_Space]:
    """The globals and outer variables of functions, defaults that they may change, and attributes of the user's modules."""
    named: dict[int, tuple[dict[str, Any], set[str]]] = {}
    for function in functions:
        names, space = _names(function), function.__globals__
        for each in (space, *map(vars, modules_read(function))):
            named.setdefault(id(each), (each, set()))[1].update(names)
        code = function.__code__
        writers = functools.partial(_set_outer, function), functools.partial(_unset_outer, function)
        yield _Space("", functools.partial(outer_values, function), frozenset(code.co_freevars), *writers)
        yield _Space("", functools.partial(_defaults, function), frozenset(code.co_varnames), None)
    for space, of_all in named.values():
        yield _Space("", functools.partial(_same, space), frozenset(of_all), *_writers(space))


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
    kinds: set[type] = set()  # of the objects; there may be thousands of one class
    todo = [model]
    while todo and len(seen) < _MOST_OBJECTS:
        value = unwrapped(todo.pop())
        if type(value) not in _PLAIN and id(value) not in seen and not is_mock(value):
            seen[id(value)] = value
            todo.extend(_held(value, kinds))
    return [*seen.values()]


def _may_change(value: Any) -> bool:
    if isinstance(value, type):
        return is_users_class(value)
    if isinstance(value, types.ModuleType):
        return is_users_module(value)
    return _is_code(value) if isinstance(value, types.FunctionType) else is_own(value) or has_slots(value)


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and is_above_keras(value)


def _held(value: Any, kinds: set[type]) -> list[Any]:
    """The values that an object or a function holds, or reads by name; of its class, if that is none of `kinds`."""
    if (contents := contents_of(value)) is not None:
        keys = contents if isinstance(contents, dict) else ()
        return [*keys, *values_of(contents), *(_of_own(value, kinds) if is_own(value) else ())]
    if isinstance(value, weakref.ref):
        return [value()]
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
    if is_own(value) or has_slots(value):
        return _of_own(value, kinds)
    inner = getattr(value, "__dict__", {}).get("__wrapped__")  # of a `tf.function`
    return [] if inner is None else [inner]


def _of_own(value: Any, kinds: set[type]) -> list[Any]:
    left, kind = left_by_calls(value), type(value)
    held = [each for name, each in getattr(value, "__dict__", {}).items() if name not in left]
    of_kind = () if kind in kinds else (*filter(_is_code, functions_of(kind)), *kind.__mro__)
    kinds.add(kind)
    return [*held, *slots_of(value).values(), *of_kind]


def _used(function: Any) -> list[Any]:
    space = function.__globals__
    named = [space[name] for name in _names(function) if name in space]
    modules = [vars(each) for each in modules_read(function)]
    held = [each[name] for each in modules for name in _names(function) if name in each]
    return [*named, *held, *(cell.cell_contents for cell in full_cells(function)), *_defaults(function).values()]


def _copied(value: Any, budget: list[int], depth: int = _HELD_DEPTH) -> Held:
    """`budget`: one number, of the items that may still be held."""
    plain = unwrapped(value)
    if isinstance(plain, np.ndarray):
        return Held(value, _copied_array(plain) if plain.flags.writeable else None)
    if isinstance(plain, BUFFERS):
        size = size_of_buffer(plain)
        return Held(value, buffered(plain) if size <= _MOST_HELD_BYTES else Glance(size, None))
    contents = contents_of(plain) if isinstance(plain, CONTAINERS) else None
    if contents is None:
        return Held(value, None)
    budget[0] -= len(contents)
    if budget[0] < 0 or not depth:
        return Held(value, Glance(len(contents), [id(each) for each in _ends(values_of(contents))]))
    if isinstance(contents, dict):
        return Held(value, {key: _copied(each, budget, depth - 1) for key, each in contents.items()})
    return Held(value, [_copied(each, budget, depth - 1) for each in contents])


def _copied_array(array: Any) -> Any:
    if array.nbytes <= _MOST_HELD_BYTES:
        return array.copy()
    return Glance(array.size, array.flat[:: max(1, array.size // (100 * _GLANCE))].tobytes())


def _ends(values: list[Any]) -> list[Any]:
    return values[:_GLANCE] + values[-_GLANCE:]


def differing(held: Mapping[Place, Held], others: Mapping[Place, Held]) -> list[Place]:
    """The places with another value, or with a container or an array of other contents."""
    places = dict.fromkeys((*held, *others))
    return [place for place in places if not _are_same(held.get(place, ABSENT), others.get(place, ABSENT))]


def _are_same(one: Held, other: Held) -> bool:
    if one is other:
        return True
    if one.value is not other.value or (one is ABSENT) != (other is ABSENT):
        return False
    mine, theirs = one.contents, other.contents
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, Glance | Buffered) or isinstance(theirs, Glance | Buffered):
        return bool(mine == theirs)
    if isinstance(mine, np.ndarray):
        return bool(mine.tobytes() == theirs.tobytes())
    if isinstance(mine, dict):
        return list(mine) == list(theirs) and all(map(_are_same, mine.values(), theirs.values()))
    return len(mine) == len(theirs) and all(map(_are_same, mine, theirs))


def _refill(held: Held) -> None:
    """Give a container or an array its contents again, and likewise its items."""
    if isinstance(held.contents, np.ndarray):
        if held.value.flags.writeable:
            np.copyto(held.value, held.contents)
    elif isinstance(held.contents, Buffered):
        refill_buffer(held.value, held.contents)
    elif held.contents is not None and not isinstance(held.contents, Glance):
        values = [each.value for each in held.items]
        is_dict = isinstance(held.contents, dict)
        refill(held.value, dict(zip(held.contents, values, strict=True)) if is_dict else values)
        for each in held.items:
            _refill(each)


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
    if isinstance(value, BUFFERS):
        return buffered(value) if size_of_buffer(value) <= _MOST_BYTES else size_of_buffer(value)
    if (contents := contents_of(value)) is not None or isinstance(value, tuple):
        return _mark_of_items(value if contents is None else contents, depth)
    if type(value).__name__.endswith("_iterator"):
        return operator.length_hint(value, -1)
    return _mark_of_iterator(value, depth)


def _mark_of_iterator(value: Any, depth: int) -> Any:
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return None if frame is None else (frame.f_lasti, _mark(dict(frame.f_locals), min(1, depth)))
    if isinstance(value, HOLDING) and depth:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14 describes no iterator of itertools
            return _mark(tuple(value.__reduce__())[1:], depth)
    return None


def _mark_of_items(items: Any, depth: int) -> Any:
    if not depth or len(items) > _MOST_ITEMS[depth - 1] or isinstance(items, set):
        return len(items)
    if isinstance(items, dict):
        return len(items), [(_mark(key, 0), _mark(each, depth - 1)) for key, each in list(items.items())]
    return len(items), [_mark(each, depth - 1) for each in items]
