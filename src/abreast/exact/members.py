"""A model's members, which are its layers and operations, and its optimizers. Members have the same numbers in every process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
from keras import tree

from abreast.keras_private.models import Functional
from abreast.keras_private.modules import KERAS, LAYERS, module_of
from abreast.keras_private.trainers import BaseTrainer, CompileMetrics
from abreast.users_functions import has

# Attributes that `fit` and its siblings leave on a model. They hold compiled code and what belongs to the caller (data,
# callbacks), and each process makes its own. Another thread may be in such a call.
LEFT_BY_CALLS = (
    "train_function",
    "test_function",
    "predict_function",
    "_eval_epoch_iterator",
    "_epoch_iterator",
    "history",
    "_history",
)

# Attributes of a model by which callbacks end a call. Keras sets each in the call that it ends.
STOP_FLAGS = ("stop_training", "stop_evaluating", "stop_predicting")


def left_by_calls(owner: Any) -> tuple[str, ...]:
    """The attributes of an object that calls of `fit` and its siblings leave: only models have them.

    A model of the user may keep something of its own under the name of a history.
    """
    if not isinstance(owner, BaseTrainer):
        return ()
    return tuple(name for name in LEFT_BY_CALLS if name not in _HISTORIES or _is_history(vars(owner).get(name)))


_HISTORIES = ("history", "_history")


def _is_history(value: Any) -> bool:
    return value is None or isinstance(value, keras.callbacks.History)


def of_calls(owner: Any) -> tuple[str, ...]:
    """The attributes of an object that calls leave, or by which callbacks end a call: only models have them."""
    return (*left_by_calls(owner), *STOP_FLAGS) if isinstance(owner, BaseTrainer) else ()


def members(model: Any) -> list[Any]:
    """Every layer of a model, itself first, and the operations of its functional graphs."""
    found = []
    for layer in model._flatten_layers():
        found.append(layer)
        if isinstance(layer, Functional):
            found.extend(each for each in layer.operations if not isinstance(each, keras.layers.Layer))
    return list({id(member): member for member in found}.values())


def watched(model: Any) -> dict[int, int]:
    """`{identity: number}` of the members whose calls are recorded: all except those inside Keras's own composite layers."""
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
    """The optimizers of a model: the compiled one, and those held by the model, its layers and the user's objects in them.

    Also those that another optimizer holds, if its own variables do not include theirs.
    """
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
            own = set(map(id, value.variables))
            todo.extend(each for each in with_inner(value) if not own.issuperset(map(id, each.variables)))
        else:
            todo.extend(_held(value))
    return list(found.values())


_MOST_OBJECTS = 10_000


def with_inner(optimizer: Any) -> list[Any]:
    """An optimizer and those that it holds (of a `LossScaleOptimizer`, a `MultiOptimizer`, one of the user's)."""
    found = {id(optimizer): optimizer}
    for held in tree.flatten([value for name, value in vars(optimizer).items() if name != "_tracker"]):
        if isinstance(held, keras.optimizers.Optimizer):
            found |= {id(each): each for each in with_inner(held)}
    return list(found.values())


def _held(value: Any) -> Iterable[Any]:
    """The values that a layer, a container or a user's object holds."""
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
    """Whether a layer is Keras's own and holds others; it may call them many times or in loops."""
    return type(layer).__module__.startswith(LAYERS) and bool(layer._layers)


def name_of_owner(value: Any) -> str:
    """The name of a layer; for an object without a name, its class."""
    return name_of(value) if has(value, "name") and isinstance(value.name, str) else type(value).__name__


def name_of(member: Any) -> str:
    kind = type(member).__name__
    return f"{member.name} ({kind})" if member.name.lower() != kind.lower() else kind


def leaf_metrics(model: Any) -> list[Any]:
    """The metrics of a model that hold state themselves; a container of metrics is replaced by its parts."""
    leaves: list[Any] = []
    for metric in [*model.metrics, *_unlisted(model)]:
        leaves.extend(metric.metrics if isinstance(metric, CompileMetrics) else [metric])
    return list({id(metric): metric for metric in leaves}.values())


def has_metrics_of_calls(model: Any) -> bool:
    """Whether a model or its layers hold metrics that a `call` may update, besides those of `compile`."""
    compiled = [getattr(model, name, None) for name in ("_loss_tracker", "_compile_metrics")]
    held = [metric for layer in model._flatten_layers() for metric in layer._metrics]
    return any(all(metric is not each for each in compiled) for metric in held)


def _unlisted(model: Any) -> Iterator[Any]:
    """The metrics of a model's layers, if the user's own `metrics` property may forget some."""
    listing = getattr(type(model).metrics, "fget", None)
    if not module_of(listing).startswith(KERAS):
        for layer in model._flatten_layers():
            yield from layer._metrics
