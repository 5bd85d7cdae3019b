"""The parts of a model (layers, losses, metrics, optimizers), and their attributes that callbacks may change.

A name that begins with an underscore is Keras's own, unless only code of the user's class uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import keras

from abreast import exact
from abreast.checkpoints.reached import is_users, names_in
from abreast.feed.values import content


def parts_of(model: Any) -> list[Any]:
    """A model's layers, losses and optimizers, and the metrics of users' classes."""
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if isinstance(each, keras.losses.Loss)]
    metrics = [each for each in exact.leaf_metrics(model) if is_users(type(each).__module__)]
    return [*model._flatten_layers(), *losses, *exact.optimizers(model), *metrics]


def contents_of(part: Any) -> dict[str, Any]:
    """The contents of a part's attributes, for comparison in this process."""
    return {name: content(value) for name, value in attributes_of(part)}


def attributes_of(part: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that count as a part's data, by name."""
    if isinstance(part, keras.Layer):
        yield "trainable", bool(part._trainable)
    kind: Any = type(part)
    private = _private_names(kind)
    by_keras = {"built", *exact.of_calls(part)}
    for name, value in vars(part).items():
        is_keras = name.startswith("_") and name not in private
        if not is_keras and name not in by_keras and not _has_variables(value):
            yield name, value


@functools.cache
def _private_names(kind: type) -> frozenset[str]:
    """The names with an underscore that the code of a user's class uses and the code of Keras's classes does not."""
    users, others = set[str](), set[str]()
    for each in kind.__mro__:
        for value in vars(each).values():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                (users if is_users(each.__module__) else others).update(names_in(function.__code__))
    return frozenset(name for name in users - others if name.startswith("_"))


def _has_variables(value: Any) -> bool:
    """Whether a value is or contains an object that Keras tracks: its variables are saved with the model."""
    return any(
        isinstance(each, keras.Layer | keras.Variable | keras.random.SeedGenerator)
        for each in keras.tree.flatten(value)
    )
