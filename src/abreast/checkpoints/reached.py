"""Data of the script that callbacks reach: a list that a function appends to, a count in a closure, an object that it calls.

The same holds for the user's code in each step, such as a `train_step` and a loss. If the step is compiled, only the variables
of that code are saved: other data stays in the step as it was compiled.

A restart makes these objects again, so changes since the `fit` began are saved: numbers, text, containers, arrays, generators,
and the variables of other models, layers, metrics and optimizers. A Python generator that was read is reported.
Not here: the attributes of the callbacks themselves (`callback_state.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, GeneratorType, MethodType, SimpleNamespace
from typing import Any

import keras
import numpy as np

from abreast import exact
from abreast.checkpoints.other_variables import OtherVariables, has_variables, holds_variables
from abreast.checkpoints.plain import copies
from abreast.feed.values import content, fill, is_generator, is_object, is_plain, saved_value
from abreast.keras_private.modules import module_of
from abreast.state import grouped_variables

_DEEPEST = 4  # levels of objects within objects, and of functions that call functions
# Attributes that Keras itself sets on callbacks.
KERASS_OWN = ("_model", "model", "params", "_params", "validation_data")
_MOST_ELEMENTS = 2**22  # of an array of JAX or TensorFlow that is compared: each time, it is copied from its device
_NOT_USERS = ("abreast", "builtins", "grain", "jax", "keras", "numpy", "tensorflow", "torch")


@dataclass(frozen=True)
class _Slot:
    """The place of a value: a cell of a closure, a global, or an attribute; or the variables of an object.

    `fill` gives the present object the content of another one, if possible. `set` is None for a value that cannot be restored.
    `is_variables`: the value is that of variables.
    """

    read: Callable[[], Any]
    set: Callable[[Any], None] | None
    fill: Callable[[Any, Any], bool] = fill
    is_variables: bool = False


@dataclass(frozen=True)
class _Walk:
    """A walk from some objects to the data that they reach: the identities seen, and those of the model's own variables.

    `arrays`: arrays of JAX and TensorFlow count as data.
    """

    seen: set[int]
    own: Callable[[], set[int]]
    arrays: bool = False


class Reached:
    """The data that some objects reach. Made when a `fit` begins: values that do not change later come from the script.

    Left out are the variables of the model itself, and its data sources, whose places are saved elsewhere. Of what only
    `in_steps` reach, variables alone are read.
    """

    def __init__(
        self, roots: Sequence[Any], model: Any, sources: Sequence[Any] = (), in_steps: Sequence[Any] = ()
    ) -> None:
        walk = _walk(model, (*roots, *sources))
        self._slots = _slots(roots, walk)
        of_steps = _slots(in_steps, walk)
        self._slots |= {f"steps.{name}": slot for name, slot in of_steps.items() if slot.is_variables}
        self._begin = {name: content(slot.read()) for name, slot in self._slots.items()}
        self.lost: tuple[str, ...] = ()
        self._held: dict[str, Any] = {}

    def hold(self) -> None:
        """Remember the values at the beginning of the `fit`: `write` restores them if a saved state lacks them."""
        self._held = copies({name: saved_value(slot.read()) for name, slot in self._slots.items()})

    def let_go(self) -> None:
        self._held = {}

    def read(self) -> dict[str, Any]:
        """The changed values by name; `lost` has the names of changed values that are no data."""
        values = {name: slot.read() for name, slot in self._slots.items()}
        changed = {name: value for name, value in values.items() if self._begin[name] != content(value)}
        kept = {name: value for name, value in changed.items() if is_plain(value) and self._slots[name].set is not None}
        self.lost = tuple(name for name in changed if name not in kept)
        return {name: saved_value(value) for name, value in kept.items()}

    def write(self, saved: dict[str, Any]) -> None:
        """Set the values that `read` returned in the objects that the script has made."""
        changed = {name for name in self._held if content(self._slots[name].read()) != self._begin[name]}
        for name, value in {**copies({each: self._held[each] for each in changed}), **saved}.items():
            slot = self._slots.get(name)
            if slot is not None and slot.set is not None and not slot.fill(slot.read(), value):
                slot.set(value)


def is_compiled(model: Any) -> bool:
    """Whether the steps of a model are compiled, with the data that their Python code reads."""
    return not model.run_eagerly and compiles_steps()


def compiles_steps() -> bool:
    """Whether the framework compiles the steps of models that do not run eagerly."""
    return bool(keras.backend.backend() != "torch")


def code_of_steps(model: Any) -> list[Any]:
    """The parts of a model whose Python code makes up a step; the last one holds the losses and metrics of `compile`."""
    users = [each for each in model._flatten_layers(include_self=False) if is_users(type(each).__module__)]
    given = [getattr(model, "loss", None), getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)]
    return [model, *users, SimpleNamespace(**{f"compile{i}": each for i, each in enumerate(keras.tree.flatten(given))})]


def data_of_steps(model: Any) -> dict[str, Any]:
    """The data that a compiled step may hold as constants, by name: on JAX, also variables of others.

    Arrays of JAX and TensorFlow are returned as NumPy's; those of more than 4 million elements are left out.
    """
    slots = _slots(code_of_steps(model), replace(_walk(model, ()), arrays=True))
    data = {name: _as_plain(slot.read()) for name, slot in slots.items() if not slot.is_variables}
    values = {name: value for name, value in data.items() if is_plain(value) and not is_generator(value)}
    if keras.backend.backend() == "jax":
        values |= {name: slot.read() for name, slot in slots.items() if slot.is_variables}
    return values


def _walk(model: Any, roots: Sequence[Any]) -> _Walk:
    """A walk that has seen its roots and the parts of the model: all their variables are the model's own."""
    parts = (*model._flatten_layers(), *exact.optimizers(model), *exact.leaf_metrics(model))
    return _Walk({id(each) for each in (*roots, *parts)}, lambda: {id(each) for _, each in grouped_variables(model)})


def _slots(roots: Sequence[Any], walk: _Walk) -> dict[str, _Slot]:
    found: dict[str, _Slot] = {}
    for number, root in enumerate(roots):
        for name, value in [*_methods(type(root)), *vars(root).items()]:
            if name not in KERASS_OWN and (callable(value) or is_object(value) or _may_have_variables(value)):
                found |= dict(_of_value(f"{number}.{name}", value, None, walk, _DEEPEST))
    return found


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for each in kind.__mro__:
        if is_users(each.__module__):
            yield from ((name, value) for name, value in vars(each).items() if isinstance(value, FunctionType))


def _of_value(name: str, value: Any, slot: _Slot | None, walk: _Walk, depth: int) -> Iterator[tuple[str, _Slot]]:
    """The slots of a value: its own if it is data; those that it reaches if it is a function or a user's object."""
    if isinstance(value, MethodType):
        yield from _of_value(f"{name}.self", value.__self__, None, walk, depth)
        value = value.__func__
    if isinstance(value, functools.partial):
        for number, each in enumerate((value.func, *value.args, *value.keywords.values())):
            yield from _of_value(f"{name}.{number}", each, None, walk, depth)
    elif isinstance(value, FunctionType):
        if depth and id(value) not in walk.seen and is_users(module_of(value)):
            walk.seen.add(id(value))
            yield from _of_function(name, value, walk, depth - 1)
    elif _is_walked(value):
        if depth and id(value) not in walk.seen:
            walk.seen.add(id(value))
            yield from _of_object(name, value, walk, depth - 1)
    elif has_variables(value):
        if id(value) not in walk.seen:
            walk.seen.add(id(value))
            variables = OtherVariables(value, walk.own)
            yield f"{name}.variables", _Slot(variables.read, variables.write, _fills_nothing, is_variables=True)
    elif isinstance(value, GeneratorType):
        if id(value) not in walk.seen:
            walk.seen.add(id(value))
            yield name, _Slot(lambda: _position(value), None)
    elif holds_variables(value):
        for number, each in enumerate(exact.values_of(value)):
            yield from _of_value(f"{name}.{number}", each, None, walk, depth)
    elif slot is not None and (is_plain(value) or is_generator(value) or (walk.arrays and _is_array(value))):
        yield name, slot


def _of_function(name: str, function: FunctionType, walk: _Walk, depth: int) -> Iterator[tuple[str, _Slot]]:
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _in(name, variable, _cell_slot(cell), walk, depth)
    defaults = function.__defaults__ or ()
    with_defaults = function.__code__.co_varnames[: function.__code__.co_argcount][-len(defaults) or None :]
    for number, (parameter, value) in enumerate(zip(with_defaults, defaults, strict=False)):
        yield from _of_value(f"{name}.{parameter}", value, _default_slot(function, number), walk, depth)
    for variable in dict.fromkeys(names_in(function.__code__)):
        if variable in function.__globals__:
            yield from _in(name, variable, _item_slot(function.__globals__, variable), walk, depth)


def _of_object(name: str, owner: Any, walk: _Walk, depth: int) -> Iterator[tuple[str, _Slot]]:
    for method, function in _methods(type(owner)):
        yield from _of_value(f"{name}.{method}", function, None, walk, depth)
    for attribute in list(vars(owner)):
        yield from _in(name, attribute, _item_slot(vars(owner), attribute), walk, depth)


def _in(name: str, last: str, slot: _Slot, walk: _Walk, depth: int) -> Iterator[tuple[str, _Slot]]:
    try:
        value = slot.read()
    except (KeyError, ValueError):  # a cell without content
        return
    yield from _of_value(f"{name}.{last}", value, slot, walk, depth)


def _may_have_variables(value: Any) -> bool:
    return has_variables(value) or holds_variables(value)


def _is_array(value: Any) -> bool:
    """Whether a value is an array of JAX or TensorFlow that has values: no tracer, symbolic tensor or variable."""
    kind = type(value)
    return (kind.__module__.partition(".")[0], kind.__name__) in (
        ("jaxlib", "ArrayImpl"),
        ("tensorflow", "EagerTensor"),
    )


def _as_plain(value: Any) -> Any:
    """An array of JAX or TensorFlow as NumPy's, if it is small and its values are here; another value as it is."""
    if not _is_array(value) or math.prod(value.shape) > _MOST_ELEMENTS:
        return value
    if hasattr(value, "is_deleted"):  # of JAX
        is_here = value.is_fully_addressable and not value.is_deleted()
    else:
        is_here = value.dtype.is_numpy_compatible  # not a handle of a resource
    return np.asarray(value) if is_here else value


def _position(generator: GeneratorType[Any, Any, Any]) -> tuple[int, str] | None:
    """The position of a generator in its code, with its plain variables; None at its end."""
    frame = generator.gi_frame
    return (
        None if frame is None else (frame.f_lasti, repr([each for each in frame.f_locals.values() if is_plain(each)]))
    )


def _fills_nothing(present: Any, value: Any) -> bool:
    return False


def _cell_slot(cell: Any) -> _Slot:
    return _Slot(lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value))


def _default_slot(function: Any, number: int) -> _Slot:
    def set_default(value: Any) -> None:
        defaults = list(function.__defaults__)
        defaults[number] = value
        function.__defaults__ = tuple(defaults)

    return _Slot(lambda: function.__defaults__[number], set_default)


def _item_slot(owner: dict[str, Any], name: str) -> _Slot:
    return _Slot(lambda: owner[name], lambda value: owner.__setitem__(name, value))


def _is_walked(value: Any) -> bool:
    """Whether a value is an object of a user's class whose attributes are watched here."""
    return (
        is_object(value)
        and is_users(type(value).__module__)
        and not isinstance(value, keras.callbacks.Callback | FunctionType | MethodType)
    )


def is_users(module: str | None) -> bool:
    return str(module).partition(".")[0] not in _NOT_USERS


def names_in(code: CodeType) -> Iterator[str]:
    """The names in a function's code and in the functions inside it, in their order, by which checkpoints name data."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_in(each)
