"""The functions and classes of the user that a model reaches, the globals that functions name, and those that they set.

A dry run restores what they change. Not here: the walk over a model's objects (`snapshot.py`). Imports no framework.
"""

from __future__ import annotations

import copy
import dis
import functools
import itertools
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

_INSTALLED = ("site-packages", "dist-packages")
_BELOW = frozenset(("keras", "tensorflow", "jax", "jaxlib", "torch"))
# Iterators whose shallow copy is at a position of its own, and those that hold other iterators.
_PLAIN: tuple[Any, ...] = (itertools.count, itertools.repeat, type(iter([])), type(iter(())), type(iter(range(1))))
HOLDING: tuple[Any, ...] = (
    *(itertools.cycle, itertools.chain, itertools.islice, itertools.accumulate, enumerate, map, zip),
)


def is_users_function(value: Any) -> bool:
    """Whether a value is a Python function that no installed package and no module of Python or abreast defines."""
    return isinstance(value, types.FunctionType) and not _is_known(value.__module__, value.__code__.co_filename)


def is_users_class(value: Any) -> bool:
    """Whether a value is a class that no installed package and no module of Python or abreast defines."""
    if not isinstance(value, type):
        return False
    return not _is_known(value.__module__, getattr(sys.modules.get(value.__module__), "__file__", None))


def is_users_module(value: Any) -> bool:
    """Whether a value is a module that is neither installed nor one of Python or abreast."""
    return isinstance(value, types.ModuleType) and not _is_known(value.__name__, getattr(value, "__file__", None))


def is_above_keras(value: Any) -> bool:
    """Whether a function, class or module is the user's or of a package that uses Keras or a framework, such as one of models."""
    name = str(_home(value))
    if _top(name) in _BELOW or _is_known(name, None):
        return False
    return not _is_known(name, getattr(sys.modules.get(name), "__file__", None)) or _uses_keras(name)


def is_of_other_package(value: Any) -> bool:
    """Whether a function, class or object is of an installed package that neither is nor uses Keras or a framework."""
    name = str(_home(value) or _home(type(value)))
    file = getattr(sys.modules.get(name), "__file__", None)
    if _top(name) in _BELOW or not any(part in (file or "") for part in _INSTALLED):
        return False
    bases = (value if isinstance(value, type) else type(value)).__mro__
    return not (_uses_keras(name) or any(_top(_home(base)) in _BELOW for base in bases))


def package_of(value: Any) -> str:
    """The package of a module, or of the module of a function, a class or an object."""
    return _top(_home(value) or _home(type(value)))


@functools.cache
def _uses_keras(module_name: str) -> bool:
    return any(_top(_home(value)) in _BELOW for value in vars(sys.modules[module_name]).values())


def _home(value: Any) -> Any:
    """The name of a module, or of the module of a function or class."""
    return value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)


def _top(module: Any) -> str:
    return str(module).partition(".")[0]


def _is_known(module: str | None, file: str | None) -> bool:
    top = _top(module)
    is_known = top == "abreast" or (top in sys.stdlib_module_names and top != "__main__")
    return is_known or any(part in (file or "") for part in _INSTALLED)


def has(value: Any, name: str) -> bool:
    """Whether a value has an attribute; a `__getattr__` of its class, which may answer to any name, is not asked."""
    return name in getattr(value, "__dict__", ()) or hasattr(type(value), name)


def is_mock(value: Any) -> bool:
    """Whether a value is a mock, or a call that one recorded: it answers to any name, and may claim any class."""
    modules = filter(None, map(sys.modules.get, ("unittest.mock", "mock")))
    return any(issubclass(type(value), (each.NonCallableMock, type(each.call))) for each in modules)


def slot_names(kind: type) -> tuple[str, ...]:
    """The names in the `__slots__` of a class and its bases."""
    if (names := _slots.get(kind)) is None:
        slotted = [vars(each) for each in kind.__mro__ if "__slots__" in vars(each)]
        names = tuple(n for each in slotted for n, slot in each.items() if isinstance(slot, types.MemberDescriptorType))
        _slots[kind] = names
    return names


_slots: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()


def slot_values(value: Any) -> dict[str, Any]:
    """The values in the `__slots__` of an object."""
    return {name: getattr(value, name) for name in slot_names(type(value)) if hasattr(value, name)}


def has_slots(value: Any) -> bool:
    """Whether a value is an object of a class of the user with `__slots__`."""
    return bool(slot_names(type(value))) and is_above_keras(type(value))


def slots_of(value: Any) -> dict[str, Any]:
    """The values in the `__slots__` of such an object; of others none."""
    return slot_values(value) if has_slots(value) else {}


def modules_read(function: Any) -> list[types.ModuleType]:
    """The user's modules to which the names in a function lead: globals, modules that it imports, and modules in these."""
    space = function.__globals__
    names = names_read(function.__code__)
    package = sys.modules.get(space.get("__package__") or "")  # of `from . import name`
    found = {
        id(each): each
        for each in (package, *map(space.get, names), *map(sys.modules.get, names))
        if is_users_module(each)
    }
    todo = list(found.values())
    while todo:
        inner = vars(todo.pop())
        new = {id(each): each for each in map(inner.get, names) if is_users_module(each) and id(each) not in found}
        found |= new
        todo += new.values()
    return list(found.values())


def attributes_set(kind: type) -> frozenset[str]:
    """The names of attributes that code of a class's installed bases sets, and those that the class has itself."""
    return frozenset(dir(kind)).union(*(_set_by(base) for base in kind.__mro__ if not is_users_class(base)))


@functools.cache
def _set_by(installed: Any) -> frozenset[str]:
    codes = [each.__code__ for each in functions_of(installed) if isinstance(each, types.FunctionType)]
    return frozenset[str]().union(*map(_set_in, codes))


def _set_in(code: types.CodeType) -> set[str]:
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_ATTR"}
    return own.union(*map(_set_in, inner_codes(code)))


def class_values(kind: type) -> dict[str, Any]:
    """The attributes of a class itself that are values: no methods, properties or names of Python's."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not (name.startswith("__") or hasattr(type(value), "__get__"))
    }


def users_functions(kind: type) -> list[Any]:
    """The functions of the user in a class and its bases."""
    return [value for value in functions_of(kind) if is_users_function(value)]


def functions_of(kind: type) -> list[Any]:
    """The functions of a class and its bases, and other attributes of theirs."""
    return [function_of(value) for each in kind.__mro__ for value in vars(each).values()]


def function_of(attribute: Any) -> Any:
    """The function of a property or a static, class or cached method; any other attribute itself."""
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    if isinstance(attribute, functools.cached_property):
        return attribute.func
    return attribute.fget if has(attribute, "fget") else attribute


def full_cells(function: Any) -> list[Any]:
    """The cells of the outer variables that a function reads and that have a value."""
    return [cell for cell in function.__closure__ or () if is_full(cell)]


def outer_values(function: Any) -> dict[str, Any]:
    """The outer variables that a function reads and that have a value, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if is_full(cell)}


def is_full(cell: Any) -> bool:
    """Whether the outer variable of a cell has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@functools.cache
def names_read(code: types.CodeType) -> frozenset[str]:
    """The names in a function's code and in the functions inside it; globals are among them."""
    return frozenset(code.co_names).union(*map(names_read, inner_codes(code)))


@functools.cache
def globals_read(code: types.CodeType) -> tuple[str, ...]:
    """The globals that a function's code names, including functions inside it."""
    return tuple(sorted(_named(code, _READS).union(*map(globals_read, inner_codes(code)))))


@functools.cache
def names_loaded(code: types.CodeType) -> frozenset[str]:
    """The names in a function's code that it does not merely set, and the texts that may be names."""
    own = {
        each.argval
        for each in dis.get_instructions(code)
        if each.opname.startswith("LOAD") and each.argval in code.co_names
    }
    return frozenset(own).union(texts_in(code), *map(names_loaded, inner_codes(code)))


@functools.cache
def texts_in(code: types.CodeType) -> frozenset[str]:
    """The texts in a function's code, and in the functions inside it, that may be names."""
    own = {each for each in code.co_consts if isinstance(each, str) and each.isidentifier()}
    return frozenset(own).union(*map(texts_in, inner_codes(code)))


@functools.cache
def names_set(code: types.CodeType) -> frozenset[str]:
    """The globals that a function sets, or that a function inside it sets."""
    return frozenset(_named(code, _SETS)).union(*map(names_set, inner_codes(code)))


# The operations that name globals, and the bits to the right of the name's number in their argument.
_READS = {dis.opmap["LOAD_GLOBAL"]: 1, dis.opmap["LOAD_NAME"]: 0}
_SETS = {dis.opmap["STORE_GLOBAL"]: 0, dis.opmap["DELETE_GLOBAL"]: 0}


def _named(code: types.CodeType, operations: dict[int, int]) -> set[str]:
    """The names in these operations of a function's code; a hundred times as fast as `dis`."""
    found, high = set(), 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number, high = high | low, 0
        if operation == dis.EXTENDED_ARG:
            high = number << 8
        elif operation in operations:
            found.add(code.co_names[number >> operations[operation]])
    return found


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of the functions inside a function."""
    return (each for each in code.co_consts if isinstance(each, types.CodeType))


def twin(value: Any) -> Any:
    """An iterator at the same position, with which a run leaves the iterator itself where it is; None for any other value."""
    if not isinstance(value, (*_PLAIN, *HOLDING)):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14 copies no iterator of itertools
            return copy.copy(value) if isinstance(value, _PLAIN) else copy.deepcopy(value)
    except Exception:  # such as one over a generator
        return None
