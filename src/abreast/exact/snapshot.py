"""The Python objects that a model holds, as they are at one moment, and how to put them back.

Not here: arrays, tensors and buffers (`in_place.py`), and what counts as a number that a run has left (`new_numbers.py`). Imports
no framework.
"""

from __future__ import annotations

import contextvars
import functools
import queue
import types
import weakref
from collections.abc import Iterator
from typing import Any

import keras

from abreast import contexts
from abreast.exact.containers import CONTAINERS, contents_of, refill, unwrapped, values_of
from abreast.exact.generators import GeneratorState, is_generator
from abreast.exact.in_place import BUFFERS, InPlace, is_changeable
from abreast.exact.members import left_by_calls, name_of_owner
from abreast.exact.new_numbers import NewNumbers
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

CACHED = type(functools.cache(repr))  # a function under `functools.cache` or `lru_cache`
_MISSING = object()
_GLOBAL = -1  # the owner of globals
_MOST_OBJECTS = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))  # a dict of words has many
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
        self._context = contextvars.copy_context()
        self._variables: list[tuple[contextvars.ContextVar[Any], Any]] = []  # of this context
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
        if isinstance(value, contextvars.ContextVar):
            self._variables.append((value, present := contexts.value_of(value)))
            return [present]
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
        new_numbers = NewNumbers({id(value) for each in containers for value in values_of(each)}, changed)
        found: dict[tuple[int, str], list[Any]] = {}
        for place, (attributes, before) in enumerate(self._attributes):
            left = left_by_calls(self._owners[place])
            for name, value in list(attributes.items()):
                if name not in left and name not in _OF_KERAS:
                    found[place, name] = new_numbers(value, before.get(name))
        for name, value, before in self._beside_attributes():
            found.setdefault((_GLOBAL, name), []).extend(new_numbers(value, before))
        return {place: arrays for place, arrays in found.items() if arrays}

    def _beside_attributes(self) -> Iterator[tuple[str, Any, Any]]:
        """Names in globals, classes, context variables and outer variables, with their present and their former value."""
        for space, before in (*self._globals, *self._read):
            yield from ((name, space.get(name), value) for name, value in before.items())
        for kind, before in self._classes:
            yield from ((name, value, before.get(name)) for name, value in class_values(kind).items())
        yield from ((variable.name, contexts.value_of(variable), value) for variable, value in self._variables)
        yield from ((name, value, value) for name, value in self._named)

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
        for variable, _ in self._variables:
            contexts.put_back(variable, self._context)
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


def is_own(value: Any) -> bool:
    """Whether an object is Keras's or the user's, with plain Python attributes."""
    if isinstance(value, type | types.ModuleType | types.FunctionType) or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, keras.utils.PyDataset):  # another thread may be reading it
        return False
    return type(value).__module__.partition(".")[0] not in _NOT_OWN
