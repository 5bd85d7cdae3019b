"""Dry runs of a model: no random number is drawn, no variable is assigned, and Python objects are restored.

Inside `dry_run(model)`, Keras's random functions return numbers that are the same for every row: a dropout keeps all, a normal
returns its mean. BatchNormalization uses its moving statistics as the moments of the batch. Assignments to Keras's variables stay
in a scope. This thread draws from private generators (`global_draws.py`). The backend restores the framework's generators and
state that Keras does not see. Imports no framework.
"""

from __future__ import annotations

import functools
import io
import itertools
import queue
import re
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import keras
import numpy as np
from keras import ops

from abreast import apart_from_sources, contexts
from abreast.exact import global_draws
from abreast.exact.containers import CONTAINERS, contents_of, refill, unwrapped, values_of
from abreast.exact.generators import GeneratorState, is_generator
from abreast.exact.in_place import BUFFERS, InPlace, is_changeable
from abreast.exact.members import left_by_calls, name_of_owner
from abreast.exact.replica import Replica
from abreast.keras_private.backend import random as keras_random
from abreast.users_functions import (
    class_values,
    full_cells,
    has_slots,
    is_full,
    is_mock,
    is_users_class,
    is_users_function,
    is_users_module,
    modules_read,
    names_read,
    names_set,
    outer_values,
    slots_of,
    twin,
    users_functions,
)

_thread = threading.local()
CACHED = type(functools.cache(repr))  # a function under `functools.cache` or `lru_cache`
_MISSING = object()
_GLOBAL = -1  # the owner of globals
_MOST_OBJECTS = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))  # a dict of words has many
_MOST_LEAVES = 1000  # values in a container that `Snapshot.numbers` reports
_LONGEST_TEXT = 1 << 16
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?(?!\w)")  # no part of an address or a name
_LEAF_DEPTH = 4  # of containers and objects in one another in which `Snapshot.numbers` looks for values
# Objects that hold a model; what they leave is looked for where it is.
_NOT_ENTERED = (keras.Layer, keras.Variable, keras.optimizers.Optimizer, keras.callbacks.Callback, keras.losses.Loss)
_MOST_NUMBERS = 1 << 22  # limit for a value that `Snapshot.numbers` reports
# Of a layer: the losses of its present call, and what PyTorch keeps, which other rules combine.
_OF_KERAS = ("_losses", "_loss_ids", "_buffers", "_parameters")
_NOT_OWN = {
    "tensorflow",
    "torch",
    "numpy",
    "jax",
    "jaxlib",
    "abreast",
    "threading",
    "queue",
    "multiprocessing",
    "asyncio",
}


def is_dry_run() -> bool:
    return getattr(_thread, "is_dry_run", False)


@contextmanager
def dry_run(model: Any) -> Iterator[Snapshot]:
    """Inside, runs of the model leave no trace; at the end, the Python objects that it holds are restored."""
    _install()
    with apart_from_sources.dry_run(), contexts.restored():
        snapshot = Snapshot(model)
        _thread.is_dry_run = True
        try:
            with global_draws.redirected():
                yield snapshot
        finally:
            _thread.is_dry_run = False
            snapshot.put_back()


@contextmanager
def python_once(running: Replica, holder: Any) -> Iterator[None]:
    """Inside, code of `holder` (a loss, a metric) finds Python objects, such as generators, as one device does."""
    befores = running.link.befores
    if befores is None:
        yield
        return
    call = id(holder), running.python_calls[id(holder)]
    running.python_calls[id(holder)] += 1
    if call not in befores:
        befores[call] = Snapshot(holder)
    else:
        befores[call].rewind()
    yield


class Snapshot:
    """The present attributes and items of all Python objects that an object, mostly a model, holds; `put_back` restores them."""

    def __init__(self, model: Any) -> None:
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._owners: list[Any] = []
        self._slots: list[tuple[Any, dict[str, Any]]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._items: list[tuple[Any, Any]] = []
        self._arrays: list[InPlace] = []
        self._globals: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._read: list[tuple[dict[str, Any], dict[str, Any]]] = []  # containers that functions find in globals
        self._cells: list[tuple[Any, Any]] = []
        self._named: list[tuple[str, Any]] = []  # arrays that functions find in globals and outer variables
        self._generators: list[GeneratorState] = []
        self._tuples: list[tuple[Any, ...]] = []
        self._caches: list[tuple[Any, int]] = []  # cached functions, and the number of their results
        seen: dict[int, Any] = {}
        todo = [model]
        while todo and len(seen) < _MOST_OBJECTS:
            value = todo.pop()
            if type(value) not in _PLAIN and id(value) not in seen:
                seen[id(value)] = value
                todo.extend(self._note(value))
        self._lend()

    def _note(self, value: Any) -> list[Any]:
        """Remember one object; return the values that it holds."""
        if is_mock(value):
            return self._note_attributes(value)
        if (copy := contents_of(value)) is not None:
            self._items.append((value, copy))
            if isinstance(value, queue.Queue):  # it counts its tasks, too
                self._note_attributes(value)
            return [
                *(copy if isinstance(copy, dict) else ()),
                *values_of(copy),
                *(self._note_attributes(value) if is_users_class(type(value)) else ()),
            ]
        value = unwrapped(value)
        if isinstance(value, tuple):
            self._tuples.append(value)
            return list(value)
        if isinstance(value, keras.Variable):  # its value is not Python's
            return [value.regularizer, value.constraint]
        if is_generator(value):
            self._generators.append(GeneratorState(value))
            return []
        if isinstance(value, types.MethodType):
            return [value.__func__, value.__self__]
        if isinstance(value, weakref.ref):
            return [value(), *self._note_attributes_of_users(value)]
        if isinstance(value, CACHED):
            if is_users_function(value.__wrapped__):
                self._caches.append((value, value.cache_info().currsize))
            return self._note_attributes(value)
        if isinstance(value, functools.partial):
            return [value.func, *value.args, *value.keywords.values()]
        if is_changeable(value):
            self._arrays.append(InPlace(value))
            return self._note_attributes_of_users(value) if isinstance(value, BUFFERS) else []
        if is_own(value):
            return [*self._note_attributes(value), *users_functions(type(value)), *type(value).__mro__]
        if has_slots(value):
            return [*self._note_slots(value), *users_functions(type(value)), *type(value).__mro__]
        if is_users_module(value):
            plain = {
                name: each for name, each in vars(value).items() if isinstance(each, (int, float, str, *CONTAINERS))
            }
            self._globals.append((vars(value), plain))
            return [each for each in plain.values() if isinstance(each, CONTAINERS)]
        if is_users_class(value):
            self._classes.append((value, class_values(value)))
            return [
                *class_values(value).values(),
                *(each for each in vars(value).values() if isinstance(each, CACHED)),
            ]
        if is_users_function(value):
            return self._note_function(value)
        return []

    def _note_function(self, function: Any) -> list[Any]:
        """Remember globals, outer variables and attributes that a function may set; return the values that it reads."""
        space, code = function.__globals__, function.__code__
        named = {name: space[name] for name in names_read(code) if name in space}
        kept = {name: space.get(name, _MISSING) for name in names_set(code)}
        kept |= {name: value for name, value in named.items() if twin(value) is not None}
        self._globals.append((space, kept))
        self._read.append((space, {name: value for name, value in named.items() if contents_of(value) is not None}))
        cells = [(cell, cell.cell_contents) for cell in full_cells(function)]
        reached = [*named.items(), *outer_values(function).items()]
        self._named += [(name, value) for name, value in reached if is_changeable(value)]
        self._cells.extend(cells)
        modules = [vars(each) for each in modules_read(function)]
        of_modules = [(each, {name: each[name] for name in names_read(code) if name in each}) for each in modules]
        self._globals.extend(of_modules)
        held = [value for _, each in of_modules for value in each.values()]
        own = self._note_attributes(function)
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        return [*named.values(), *(contents for _, contents in cells), *held, *own, *defaults]

    def _note_attributes(self, value: Any) -> list[Any]:
        self._attributes.append((vars(value), dict(vars(value))))
        self._owners.append(value)
        return [*vars(value).values(), *self._note_slots(value)]

    def _note_attributes_of_users(self, value: Any) -> list[Any]:
        """Likewise, of an object that has attributes of its own only if its class is the user's."""
        if not is_users_class(type(value)) or not is_own(value):
            return []
        return [*self._note_attributes(value), *users_functions(type(value))]

    def _note_slots(self, value: Any) -> list[Any]:
        slots = slots_of(value)
        if has_slots(value):
            self._slots.append((value, slots))
        return list(slots.values())

    def rewind(self, generators: bool = True) -> None:
        """Put everything back for another run, or everything except random generators."""
        self._put_back_objects()
        if generators:
            self._put_back_generators()
        self._lend()

    def _lend(self) -> None:
        """Until `put_back`, hold copies of iterators in place of the iterators."""
        for space, before in [*self._attributes, *self._globals]:
            for name, value in before.items():
                if (other := twin(value)) is not None:
                    space[name] = other

    def numbers(self) -> dict[tuple[int, str], list[Any]]:
        """Numbers and arrays that came into attributes since, alone or in a container, by owner and name.

        Arrays that were changed in place are among them. Those in globals have the owner -1.
        """
        changed = self.changed_in_place()
        containers = (*(before for _, before in self._items), *self._tuples)
        old = {id(value) for each in containers for value in values_of(each)} - changed
        unchanged: set[int] = set()
        found: dict[tuple[int, str], list[Any]] = {}
        for place, (attributes, before) in enumerate(self._attributes):
            left = left_by_calls(self._owners[place])
            for name, value in list(attributes.items()):
                if name not in left and name not in _OF_KERAS:
                    found[place, name] = _arrays(_new_values(value, before.get(name), old, changed, unchanged))
        for space, before in (*self._globals, *self._read):
            for name, value in before.items():
                arrays = _arrays(_new_values(space.get(name), value, old, changed, unchanged))
                found.setdefault((_GLOBAL, name), []).extend(arrays)
        for kind, before in self._classes:
            for name, value in class_values(kind).items():
                arrays = _arrays(_new_values(value, before.get(name), old, changed, unchanged))
                found.setdefault((_GLOBAL, name), []).extend(arrays)
        for name, value in self._named:
            if id(value) in changed:
                found.setdefault((_GLOBAL, name), []).extend(_arrays([value]))
        return {place: arrays for place, arrays in found.items() if arrays}

    def changed_in_place(self) -> set[int]:
        """The identities of arrays and tensors that were changed in place since."""
        return {id(each.array) for each in self._arrays if each.has_changed()}

    def owner(self, place: tuple[int, str]) -> Any:
        """The object with the attribute; None for a global."""
        return None if place[0] == _GLOBAL else self._owners[place[0]]

    def name(self, place: tuple[int, str]) -> str:
        owner = self.owner(place)
        return place[1] if owner is None else f"{name_of_owner(owner)}.{place[1]}"

    def put_back(self) -> None:
        self._put_back_objects()
        self._put_back_generators()

    def drew(self) -> bool:
        """Whether a random generator that an object holds has gone on since."""
        return any(state.has_moved() for state in self._generators)

    def _put_back_generators(self) -> None:
        for state in self._generators:
            state.put_back()

    def _put_back_objects(self) -> None:
        for space, before in self._globals:
            for name, value in before.items():
                if value is _MISSING:
                    space.pop(name, None)
                elif space.get(name, _MISSING) is not value:
                    space[name] = value
        for cell, contents in self._cells:
            if not is_full(cell) or cell.cell_contents is not contents:
                cell.cell_contents = contents
        for kind, before in self._classes:
            values = class_values(kind)
            for name in values.keys() - before.keys():
                delattr(kind, name)
            for name, value in before.items():
                if values.get(name, self) is not value:
                    setattr(kind, name, value)
        for owner, (attributes, before) in zip(self._owners, self._attributes, strict=True):
            left = left_by_calls(owner)
            for name in [name for name in list(attributes) if name not in before and name not in left]:
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name, self) is not value and name not in left:
                    attributes[name] = value
        for owner, before in self._slots:
            present = slots_of(owner)
            for name in present.keys() - before.keys():
                object.__delattr__(owner, name)
            for name, value in before.items():
                if present.get(name, _MISSING) is not value:
                    object.__setattr__(owner, name, value)
        for container, before in self._items:
            refill(container, before)
        for each in self._arrays:
            each.put_back()
        for function, size in self._caches:
            if size == 0:  # otherwise nobody can tell which results are new
                function.cache_clear()


def _new_values(value: Any, before: Any, old: set[int], changed: set[int], unchanged: set[int]) -> list[Any]:
    """The new or changed values in an attribute: itself, or those in its container that no container held before.

    `unchanged`: identities of containers in which there are none; those that are found are added.
    """
    if contents_of(value) is None and not isinstance(value, tuple):
        return [] if value is before and id(value) not in changed else _first(_leaves(value))
    seen: set[int] = set()
    found = _first(_new_items(value, old, seen, unchanged))
    if not found:
        unchanged |= seen
    return found


def _first(leaves: Iterator[Any]) -> list[Any]:
    return list(itertools.islice(leaves, _MOST_LEAVES))


def _new_items(container: Any, old: set[int], seen: set[int], unchanged: set[int]) -> Iterator[Any]:
    todo = [container]
    while todo:
        container = todo.pop()
        if id(container) in seen or id(container) in unchanged:
            continue
        seen.add(id(container))
        for each in values_of(container if isinstance(container, tuple) else contents_of(container)):
            if id(each) not in old:
                yield from _leaves(each)
            elif isinstance(each, (*CONTAINERS, tuple)):
                todo.append(each)


def _leaves(value: Any, depth: int = _LEAF_DEPTH) -> Iterator[Any]:
    """The values in a container or in an object of the user, which may be in others; any other value itself."""
    kind = type(value)
    if _is_number(value) or isinstance(value, (str, io.StringIO)):
        yield value
        return
    if isinstance(value, _NOT_ENTERED):
        return
    contents = list(value) if isinstance(value, tuple) else contents_of(value)
    if contents is None and is_users_function(value):
        contents = [cell.cell_contents for cell in full_cells(value)]
    elif contents is None and is_users_class(kind):
        contents = [*(vars(value).values() if kind.__dictoffset__ else ()), *slots_of(value).values()]
    if contents is None:
        yield value
    elif depth:
        for each in values_of(contents):
            yield from _leaves(each, depth - 1)


def _arrays(values: list[Any]) -> list[Any]:
    """The numbers and tensors among some values, and the numbers in each text."""
    texts = [_text_of(each) if isinstance(each, io.StringIO) else each for each in values]
    arrays = [_numbers_in(each) if isinstance(each, str) else _as_array(each) for each in texts]
    return [each for each in arrays if each is not None]


def _text_of(buffer: io.StringIO) -> str:
    return "" if buffer.closed else io.StringIO.getvalue(buffer)


def _as_array(value: Any) -> Any:
    with suppress(TypeError, ValueError):  # an array of texts
        return np.asarray(ops.convert_to_numpy(value), "float64") if _is_number(value) else None
    return None


def _numbers_in(text: str) -> Any:
    """The numbers in a text, such as a shape; None if there are none, or if it is long."""
    numbers = _NUMBER.findall(text) if len(text) <= _LONGEST_TEXT else []
    return np.array([float(each) for each in numbers]) if numbers else None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not (isinstance(value, (int, float, np.number, np.ndarray)) or ops.is_tensor(value)):
        return False
    shape = getattr(value, "shape", ())
    return None not in shape and int(np.prod(shape)) <= _MOST_NUMBERS


def is_own(value: Any) -> bool:
    """Whether an object is Keras's or the user's, with plain Python attributes."""
    if isinstance(value, type | types.ModuleType | types.FunctionType) or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, keras.utils.PyDataset):  # another thread may be reading it
        return False
    return type(value).__module__.partition(".")[0] not in _NOT_OWN


@functools.cache
def _install() -> None:
    """Wrap Keras's random functions, once. Outside `dry_run`, and in other threads, they work as before."""
    functions: Any = keras_random
    for name, fixed in _WITHOUT_DRAWS.items():
        setattr(functions, name, _unless_dry_run(getattr(functions, name), fixed))


def _unless_dry_run(plain: Callable[..., Any], fixed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def draw(*args: Any, **kwargs: Any) -> Any:
        return fixed(*args, **kwargs) if is_dry_run() else plain(*args, **kwargs)

    return draw


def _full(shape: Any, value: Any, dtype: Any) -> Any:
    return ops.broadcast_to(ops.cast(value, dtype or keras.config.floatx()), shape)


def _normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, mean, dtype)


def _uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, (minval + maxval) / 2, dtype)


def _randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    return _full(shape, minval + (maxval - minval) // 2, dtype)


def _categorical(logits: Any, num_samples: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    return ops.cast(ops.repeat(ops.argmax(logits, axis=-1, keepdims=True), num_samples, axis=-1), dtype or "int32")


def _dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    return inputs


def _shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    return ops.roll(x, 1, axis=axis)  # a shuffle of rows relates them to one another


def _gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, alpha, dtype)


def _binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, counts * probabilities, dtype)


def _beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, alpha / (alpha + beta), dtype)


_WITHOUT_DRAWS: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "truncated_normal": _normal,
    "uniform": _uniform,
    "randint": _randint,
    "categorical": _categorical,
    "dropout": _dropout,
    "shuffle": _shuffle,
    "gamma": _gamma,
    "binomial": _binomial,
    "beta": _beta,
}
RANDOM_FUNCTIONS = tuple(_WITHOUT_DRAWS)
