"""Data of the script that callbacks reach: a list that a function appends to, a count in a closure, an object that it calls.

The same counts for the user's code that runs in each step, as a `train_step` and a loss, unless the step is compiled.

A restart makes them anew, so what has changed since the `fit` began is saved: numbers, text, containers, arrays and generators.
Not here: the attributes of the callbacks themselves (`callback_state.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras

from abreast.feed.values import content, fill, is_generator, is_object, is_plain, saved_value

_DEEPEST = 4  # objects within objects, and functions that call functions
_NOT_USERS = ("abreast", "builtins", "grain", "jax", "keras", "numpy", "tensorflow", "torch")


@dataclass(frozen=True)
class _Slot:
    """Where a value is: a cell of a closure, a global, or an attribute."""

    read: Callable[[], Any]
    set: Callable[[Any], None]


class Reached:
    """The data that some objects reach. Made when a `fit` begins: what has not changed since then is as the script makes it."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self._slots = _slots(roots)
        self._begin = {name: content(slot.read()) for name, slot in self._slots.items()}
        self.lost: tuple[str, ...] = ()

    def read(self) -> dict[str, Any]:
        """What has changed, by name; `lost` has the names of what is no data."""
        values = {name: slot.read() for name, slot in self._slots.items()}
        changed = {name: value for name, value in values.items() if self._begin[name] != content(value)}
        self.lost = tuple(name for name, value in changed.items() if not is_plain(value))
        return {name: saved_value(value) for name, value in changed.items() if is_plain(value)}

    def write(self, saved: dict[str, Any]) -> None:
        """Set what `read` returned, into the objects that the script has made."""
        for name, value in saved.items():
            slot = self._slots.get(name)
            if slot is not None and not fill(slot.read(), value):
                slot.set(value)


def code_of_steps(model: Any) -> list[Any]:
    """The parts of a model whose Python code runs in each step: none of a compiled one."""
    if not model.run_eagerly and keras.backend.backend() != "torch":
        return []
    return [model, *(each for each in model._flatten_layers(include_self=False) if _is_users(type(each).__module__))]


def _slots(roots: Sequence[Any]) -> dict[str, _Slot]:
    found: dict[str, _Slot] = {}
    seen = {id(each) for each in roots}
    for number, root in enumerate(roots):
        for name, value in [*_methods(type(root)), *vars(root).items()]:
            if callable(value) or is_object(value):
                found |= dict(_of_value(f"{number}.{name}", value, None, seen, _DEEPEST))
    return found


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for each in kind.__mro__:
        if _is_users(each.__module__):
            yield from ((name, value) for name, value in vars(each).items() if isinstance(value, FunctionType))


def _of_value(name: str, value: Any, slot: _Slot | None, seen: set[int], depth: int) -> Iterator[tuple[str, _Slot]]:
    """The slots of a value: itself if it is data, and what it reaches if it is a function or an object of the user's."""
    if isinstance(value, MethodType):
        yield from _of_value(f"{name}.self", value.__self__, None, seen, depth)
        value = value.__func__
    if isinstance(value, functools.partial):
        for number, each in enumerate((value.func, *value.args, *value.keywords.values())):
            yield from _of_value(f"{name}.{number}", each, None, seen, depth)
    elif isinstance(value, FunctionType):
        if depth and id(value) not in seen and _is_users(value.__module__):
            seen.add(id(value))
            yield from _of_function(name, value, seen, depth - 1)
    elif _is_walked(value):
        if depth and id(value) not in seen:
            seen.add(id(value))
            yield from _of_object(name, value, seen, depth - 1)
    elif slot is not None and (is_plain(value) or is_generator(value)):
        yield name, slot


def _of_function(name: str, function: FunctionType, seen: set[int], depth: int) -> Iterator[tuple[str, _Slot]]:
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _in(name, variable, _cell_slot(cell), seen, depth)
    for variable in dict.fromkeys(_names(function.__code__)):
        if variable in function.__globals__:
            yield from _in(name, variable, _item_slot(function.__globals__, variable), seen, depth)


def _of_object(name: str, owner: Any, seen: set[int], depth: int) -> Iterator[tuple[str, _Slot]]:
    for method, function in _methods(type(owner)):
        yield from _of_value(f"{name}.{method}", function, None, seen, depth)
    for attribute in list(vars(owner)):
        yield from _in(name, attribute, _item_slot(vars(owner), attribute), seen, depth)


def _in(name: str, last: str, slot: _Slot, seen: set[int], depth: int) -> Iterator[tuple[str, _Slot]]:
    try:
        value = slot.read()
    except (KeyError, ValueError):  # a cell without content
        return
    yield from _of_value(f"{name}.{last}", value, slot, seen, depth)


def _cell_slot(cell: Any) -> _Slot:
    return _Slot(lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value))


def _item_slot(owner: dict[str, Any], name: str) -> _Slot:
    return _Slot(lambda: owner[name], lambda value: owner.__setitem__(name, value))


def _is_walked(value: Any) -> bool:
    """Whether a value is an object of the user's whose attributes count here. A data source keeps its own."""
    return (
        is_object(value)
        and _is_users(type(value).__module__)
        and not isinstance(value, keras.callbacks.Callback | keras.utils.PyDataset | FunctionType | MethodType)
    )


def _is_users(module: str | None) -> bool:
    return str(module).partition(".")[0] not in _NOT_USERS


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals that a function uses, with the functions inside of it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
