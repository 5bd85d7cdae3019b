"""A search through the user's code for the names that it reads: in functions, classes, and a model's losses and metrics."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from abreast.exact.containers import contents_of, values_of
from abreast.exact.members import leaf_metrics, members
from abreast.exact.own_step import compiled_losses, is_users
from abreast.keras_private.modules import KERAS, module_of
from abreast.users_functions import (
    full_cells,
    function_of,
    functions_of,
    has,
    is_above_keras,
    is_mock,
    is_users_function,
    names_loaded,
    names_read,
    texts_in,
)

_MOST_OBJECTS = 10_000
_MOST_NAMES = 3  # in a message
_ASSIGNING = {"assign", "assign_add", "assign_sub", "set_weights", "_value", "copy_", "add_", "fill_"}
_ANY_STATE = {"variables", "weights", "non_trainable_variables", "non_trainable_weights", "__dict__", "vars", "getattr"}


def names_on_all_rows(model: Any, gathered: Iterable[int]) -> set[str]:
    """The names in losses, metrics and regularizers, and in the `gathered` members."""
    everyone = members(model)
    objects = [*(getattr(loss, "args", (loss,))[0] for loss in compiled_losses(model)), *leaf_metrics(model)]
    objects += [getattr(each, "fn", getattr(each, "_fn", None)) for each in objects]
    objects += [weight.regularizer for weight in model.trainable_variables]
    functions = [getattr(model, name) for name in ("compute_loss", "compute_metrics") if is_users(model, name)]
    return _names(model, [*functions, *objects, *(everyone[number] for number in gathered)])


def names_of_users_code(model: Any, layers: Iterable[Any], own_step: str | None) -> list[str]:
    """The names of code that is not Keras's: of classes of `layers`, by their calls, and of the user's step of a kind."""
    others = [each for each in layers if _has_other_code(each)]
    names = [f"{type(each).__name__}{'.call' if each is model else ''}" for each in others]
    return [*dict.fromkeys(names), *([f"{type(model).__name__}.{own_step}_step"] if own_step else [])]


def _has_other_code(layer: Any) -> bool:
    """Whether a call of a layer runs code that is not Keras's."""
    kinds = keras.layers.Lambda, keras.layers.TorchModuleWrapper
    return not module_of(type(layer).call).startswith(KERAS) or isinstance(layer, kinds)


def first_of(names: list[str]) -> str:
    """The first few of many names, for a message."""
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"


def names_in(model: Any, holder: Any) -> set[str]:
    """The names in the code of a function, a class or an object."""
    return _names(model, [holder])


def functions_in_steps(model: Any, kind: str) -> list[Any]:
    """The functions of the user in the layers and in their own step of a kind, and those that these name.

    In Keras's step, losses work on the rows of all devices; in one of the user's, on those of a device.
    """
    todo: list[Any] = [each.call for each in members(model)]
    todo += [value for each in members(model) for value in vars(each).values() if _is_function(value)]
    if is_users(model, f"{kind}_step"):
        losses = [getattr(loss, "args", (loss,))[0] for loss in compiled_losses(model)]
        todo += [getattr(model, f"{kind}_step"), model.compute_loss, *(getattr(each, "fn", each) for each in losses)]
    return _reader(model).functions(todo)


def members_that_name(model: Any, names: set[str]) -> list[int]:
    """The numbers of the members in whose code, written by the user, one of these names is."""
    of_class: dict[type, bool] = {}
    found = []
    for number, member in enumerate(members(model)):
        if type(member) not in of_class:
            of_class[type(member)] = not names.isdisjoint(names_in(model, type(member)))
        own = [value for value in vars(member).values() if is_users_function(value)]
        if of_class[type(member)] or any(not names.isdisjoint(names_in(model, each)) for each in own):
            found.append(number)
    return found


def _names(model: Any, holders: list[Any]) -> set[str]:
    todo: list[Any] = []
    for each in holders:
        if isinstance(each, keras.Layer):  # otherwise only the methods that code names count
            todo += [*_functions(type(each)), *filter(_is_function, vars(each).values())]
        else:
            todo += _functions(each) if isinstance(each, type) else [each]
    return _reader(model).names(todo) if todo else set()


def _reader(model: Any) -> _Reader:
    return _Reader([vars(model), *_classes(map(type, members(model)))])


def may_change(model: Any, layer: Any, states: list[Any]) -> bool:
    """Whether some code may assign to the states of a layer: code that names one of them, or what that code calls."""
    names = {name for name, value in vars(layer).items() if any(value is state for state in states)}
    own = [*_functions(type(layer)), *filter(_is_function, vars(layer).values())]
    spaces = _classes([type(layer)])
    if len(names) < len(states):  # some are in containers
        return True
    names |= {name for name, value in vars(layer).items() if _holds_one(value, states)}
    reached = _Reader(spaces).functions(own)
    naming = [each for each in reached if not (names | _ANY_STATE).isdisjoint(names_loaded(each.__code__))]
    if any(not _ASSIGNING.isdisjoint(_Reader(spaces).names([each])) for each in naming):
        return True
    codes = [function.__code__ for each in members(model) for function in _functions(type(each))]
    read = map(names_read, codes)
    return any(not names.isdisjoint(each) and not _ASSIGNING.isdisjoint(each) for each in read)


def _holds_one(value: Any, states: list[Any]) -> bool:
    """Whether a container of a layer holds one of its states."""
    contents = contents_of(value)
    return any(each is state for each in values_of(contents or ()) for state in states)


def _classes(kinds: Iterable[type]) -> list[Any]:
    """The attributes of classes and their bases that are the user's, or of a package that uses Keras."""
    return [vars(kind) for each in dict.fromkeys(kinds) for kind in each.__mro__ if is_above_keras(kind)]


class _Reader:
    """A walk over the user's code: functions, the functions and methods that they name, and the objects that they use.

    A method of a layer counts if its name is read. So may an attribute that no code names in full (`getattr` with a text).
    """

    def __init__(self, spaces: list[Any]) -> None:
        """`spaces`: the attributes that names in functions may mean."""
        self._spaces = spaces
        self._seen: dict[int, Any] = {}

    def names(self, todo: list[Any]) -> set[str]:
        found: set[str] = set()
        while todo and len(self._seen) < _MOST_OBJECTS:
            value = todo.pop()
            if id(value) in self._seen or is_mock(value):
                continue
            self._seen[id(value)] = value
            if _is_function(value) and is_above_keras(value):
                names = names_read(value.__code__) | texts_in(value.__code__)
                found |= names
                todo += self._reached(value, names)
            elif _is_function(value):
                found.add(value.__name__)  # the user's code may have another name for it
                todo += _parts(value)
            elif isinstance(value, type) and issubclass(value, keras.callbacks.Callback):
                todo += self._of_callbacks(value, found)
            else:
                found |= _names_of_kind(value)
                todo += _parts(value)
        return found

    def _of_callbacks(self, kind: type, names: set[str]) -> list[Any]:
        """The functions of a class of callbacks, without the hooks that no code names: Keras calls these between steps."""
        functions = _functions(kind)
        self._spaces += [{each.__name__: each} for each in functions]  # for names that are read later
        return [each for each in functions if not each.__name__.startswith("on_") or each.__name__ in names]

    def functions(self, todo: list[Any]) -> list[Any]:
        """The user's functions among `todo` and what they reach."""
        self.names(todo)
        return [each for each in self._seen.values() if _is_function(each) and is_above_keras(each)]

    def _reached(self, function: Any, names: frozenset[str]) -> Iterator[Any]:
        """The values that a function may use: globals, attributes of the user's classes, modules, outer variables, defaults."""
        spaces = [function.__globals__, *self._spaces]
        modules = [each for each in map(function.__globals__.get, names) if isinstance(each, types.ModuleType)]
        spaces += [vars(each) for each in modules if is_above_keras(each)]
        yield from (space[name] for space in spaces for name in names if name in space)
        yield from (cell.cell_contents for cell in full_cells(function))
        yield from (function.__defaults__ or ())
        yield from (function.__kwdefaults__ or {}).values()


def _names_of_kind(value: Any) -> set[str]:
    """The names of a callable object's class and module: that of a function under `custom_gradient` has one of these names."""
    return {type(value).__name__, type(value).__module__.rpartition(".")[2]} if callable(value) else set()


def _parts(value: Any) -> list[Any]:
    """The functions and objects inside a value that code uses."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if (function := function_of(value)) is not value:
        return [function]
    if has(value, "__wrapped__") and callable(value):
        return [value.__wrapped__]
    if isinstance(value, tuple):
        return list(value)
    if (contents := contents_of(value)) is not None:
        return values_of(contents)
    if isinstance(value, type):
        return _functions(value)
    if is_above_keras(type(value)) and not isinstance(value, (keras.Layer, types.ModuleType)):
        return [type(value), *vars(value).values()] if hasattr(value, "__dict__") else [type(value)]
    return []


def _functions(kind: type) -> list[Any]:
    return [each for each in functions_of(kind) if _is_function(each) and is_above_keras(each)]


def _is_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType)
