"""The names that the user's code of a model reads: losses and metrics, or any function or class. Imports no framework."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from abreast.exact.members import leaf_metrics, members
from abreast.exact.own_step import compiled_losses, is_users
from abreast.exact.users_functions import full_cells, is_users_function, names_read, users_functions


def names_on_all_rows(model: Any, gathered: Iterable[int]) -> set[str]:
    """The names in losses, metrics and regularizers, and in the `gathered` members."""
    everyone = members(model)
    objects = [*(getattr(loss, "args", (loss,))[0] for loss in compiled_losses(model)), *leaf_metrics(model)]
    objects += [getattr(each, "fn", getattr(each, "_fn", None)) for each in objects]
    objects += [weight.regularizer for weight in model.trainable_variables]
    functions = [getattr(model, name) for name in ("compute_loss", "compute_metrics") if is_users(model, name)]
    return _names(model, [*functions, *objects, *(everyone[number] for number in gathered)])


def names_in(model: Any, holder: Any) -> set[str]:
    """The names in the code of a function, a class or an object."""
    return _names(model, [holder])


def _names(model: Any, holders: list[Any]) -> set[str]:
    functions: list[Any] = []
    for each in holders:
        function = getattr(each, "__func__", each)
        kind = function if isinstance(function, type) else type(function)
        functions += [function] if isinstance(function, types.FunctionType) else users_functions(kind)
    return set(_names_in(functions, type(model)))


def _names_in(functions: list[Any], kind: type) -> Iterator[str]:
    """The names that functions read, and the functions that they call: globals, closures and methods of the model."""
    methods = {each.__name__: each for each in users_functions(kind)}
    seen: set[int] = set()
    todo = functions
    while todo:
        function = todo.pop()
        if id(function) in seen or not is_users_function(function):
            continue
        seen.add(id(function))
        read = names_read(function.__code__)
        yield from read
        todo += [space[name] for space in (function.__globals__, methods) for name in read if name in space]
        todo += [cell.cell_contents for cell in full_cells(function)]
