"""A model's optimizers, and its layers and operations: numbered alike in every process, and which are looked at one by one.

Imports Keras; no framework.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import keras
from keras.src.models.functional import Functional

# What calls of `fit` and its siblings leave on a model, made anew where it is needed: it holds what is the caller's alone (data,
# callbacks) and compiled code. Another thread may be in such a call.
LEFT_BY_CALLS = (
    "train_function",
    "test_function",
    "predict_function",
    "_eval_epoch_iterator",
    "_epoch_iterator",
    "history",
    "_history",
)


def members(model: Any) -> list[Any]:
    """Every layer of a model, itself first, and the operations of its functional graphs."""
    found = []
    for layer in model._flatten_layers():
        found.append(layer)
        if isinstance(layer, Functional):
            found.extend(each for each in layer.operations if not isinstance(each, keras.layers.Layer))
    return list({id(member): member for member in found}.values())


def watched(model: Any) -> dict[int, int]:
    """By their identity, the numbers of members that are called one by one: what Keras's own layers hold is theirs."""
    inside: set[int] = set()
    for layer in model._flatten_layers():
        if is_whole(layer):
            inside.update(id(each) for each in layer._flatten_layers(include_self=False))
    held = {id(layer) for each in model._flatten_layers() if not is_whole(each) for layer in each._layers}
    return {
        id(member): number
        for number, member in enumerate(members(model))
        if id(member) not in inside or (id(member) in held and member is not model)
    }


def optimizers(model: Any) -> list[Any]:
    """The optimizers of a model: the compiled one, and those that it, its layers and objects of the user's in them hold."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo = deque([getattr(model, "optimizer", None), *model._flatten_layers()])
    while todo and len(seen) < _MOST_OBJECTS:
        value = todo.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, keras.optimizers.Optimizer):
            found[id(value)] = value
        else:
            todo.extend(_held(value))
    return list(found.values())


_MOST_OBJECTS = 10_000


def _held(value: Any) -> Iterable[Any]:
    """What a layer, a container or an object of the user's holds."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set)):
        return list(value)
    is_known = isinstance(value, type) or type(value).__module__.partition(".")[0] in _NOT_USERS
    if not hasattr(value, "__dict__") or (is_known and not isinstance(value, keras.Layer)):
        return ()
    return list(vars(value).values())


_NOT_USERS = {"abreast", "builtins", "functools", "jax", "keras", "numpy", "tensorflow", "threading", "torch", "types"}


def is_whole(layer: Any) -> bool:
    """Whether a layer is one of Keras's own that holds others: it calls them as it likes, many times or in loops."""
    return type(layer).__module__.startswith("keras.src.layers.") and bool(layer._layers)


def name_of_owner(value: Any) -> str:
    """A layer's name, or the class of another object."""
    return name_of(value) if isinstance(getattr(value, "name", None), str) else type(value).__name__


def name_of(member: Any) -> str:
    kind = type(member).__name__
    return f"{member.name} ({kind})" if member.name.lower() != kind.lower() else kind


def leaf_metrics(model: Any) -> list[Any]:
    """Every metric of a model that holds state of its own."""
    leaves: list[Any] = []
    for metric in model.metrics:
        leaves.extend(metric.metrics if hasattr(metric, "metrics") and not metric._variables else [metric])
    return list({id(metric): metric for metric in leaves}.values())
