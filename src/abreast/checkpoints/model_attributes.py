"""Attributes that callbacks change on a model's layers, losses and optimizers: a `trainable`, a rate that is annealed.

Plain data is saved if it has changed since the `fit` began, and set again. What begins with an underscore is Keras's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from abreast import exact
from abreast.checkpoints.plain import CannotPackError, pack, unpack
from abreast.errors import CheckpointError

_MOST_BYTES = 64 * 1024  # of the arrays of one attribute
_NOT_SETTINGS = ("built", "stop_training", "history", "train_function", "test_function", "predict_function")
Attributes = list[dict[str, Any]]  # by object, in an order that is the same in every process


def read(model: Any) -> Attributes:
    """The attributes of all objects, as JSON."""
    return [{**_trainable(each), **_packed(each)} for each in _objects(model)]


def changes(begin: Attributes, now: Attributes) -> Attributes:
    """The attributes that are not as they were. A model that was built in between has more objects."""
    if len(begin) != len(now):
        return [{} for _ in now]
    return [
        {name: value for name, value in after.items() if name not in before or before[name] != value}
        for before, after in zip(begin, now, strict=True)
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
            setattr(each, name, unpack(value, {key: _array(text) for key, text in arrays.items()}))


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
            found[name] = [packed, {key: _text(array) for key, array in arrays.items()}]
    return found


def _text(array: Any) -> list[Any]:
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def _array(text: list[Any]) -> Any:
    name, shape, data = text
    return np.frombuffer(bytes.fromhex(data), np.dtype(name)).reshape(shape).copy()
