"""Attributes that callbacks change on a model's layers, losses and optimizers: a `trainable`, a rate that is annealed.

Plain data is saved if it has changed since the `fit` began, and set again. What begins with an underscore is Keras's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from abreast import exact
from abreast.checkpoints.plain import CannotPackError, array_from_json, array_to_json, pack, unpack
from abreast.errors import CheckpointError

_MOST_BYTES = 64 * 1024  # of the arrays of one attribute
_NOT_SETTINGS = ("built", "stop_training", "history", "train_function", "test_function", "predict_function")
Attributes = list[tuple[Any, dict[str, Any]]]  # each object with its own, as JSON


def read(model: Any) -> Attributes:
    """The attributes of all parts of a model."""
    return [(each, {**_trainable(each), **_packed(each)}) for each in _objects(model)]


def changes(begin: Attributes, model: Any) -> list[dict[str, Any]]:
    """The attributes that are not as they were, of each part in an order that is the same in every process.

    A part that was made since then, as TensorFlow makes them in the first step, has none.
    """
    before = {id(each): attributes for each, attributes in begin}
    return [
        {name: value for name, value in now.items() if before.get(id(each), now).get(name) != value}
        for each, now in read(model)
    ]


def write(model: Any, changed: Sequence[dict[str, Any]]) -> None:
    """Set what `changes` returned. Raises `CheckpointError` if the model has other parts."""
    objects = _objects(model)
    if len(objects) != len(changed):
        raise CheckpointError(
            f"the checkpoint has {len(changed)} layers, losses and optimizers, this model has {len(objects)}",
            "build and compile the model of the checkpoint",
        )
    for each, attributes in zip(objects, changed, strict=True):
        for name, (value, arrays) in attributes.items():
            setattr(each, name, unpack(value, {key: array_from_json(text) for key, text in arrays.items()}))


def _objects(model: Any) -> list[Any]:
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if isinstance(each, keras.losses.Loss)]
    return [*model._flatten_layers(), *losses, *exact.optimizers(model)]


def _trainable(each: Any) -> dict[str, Any]:
    return {"trainable": [bool(each._trainable), {}]} if isinstance(each, keras.Layer) else {}


def _packed(each: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(each).items():
        if name.startswith("_") or name in _NOT_SETTINGS:
            continue
        arrays: dict[str, Any] = {}
        try:
            packed = pack(value, name, arrays)
        except CannotPackError:
            continue
        if sum(array.nbytes for array in arrays.values()) <= _MOST_BYTES:
            found[name] = [packed, {key: array_to_json(array) for key, array in arrays.items()}]
    return found
