"""Attributes that callbacks change on a model's layers, losses and optimizers: a `trainable`, a rate that is annealed.

Plain data is saved if it has changed since the `fit` began, and set again. What begins with an underscore is Keras's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import keras

from abreast import exact
from abreast.checkpoints.plain import CannotPackError, pack, unpack
from abreast.errors import CheckpointError
from abreast.feed.values import content

_NOT_SETTINGS = ("built", "stop_training", "history", "train_function", "test_function", "predict_function")


class ModelAttributes:
    """The attributes of all parts of a model. Made when a `fit` begins: what does not change from then on is the script's."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # With the objects themselves: an identity may come again once its object is gone.
        self._begin = [(each, {name: content(value) for name, value in _attributes(each)}) for each in _parts(model)]

    def read(self, arrays: MutableMapping[str, Any]) -> list[dict[str, Any]]:
        """What has changed, of each part in an order that is the same in every process; arrays go to `arrays`.

        A part that was made since then, as TensorFlow makes them in the first step, has not changed.
        """
        before = {id(each): contents for each, contents in self._begin}
        return [
            dict(_changed(each, before[id(each)], f"attributes/{number}", arrays)) if id(each) in before else {}
            for number, each in enumerate(_parts(self._model))
        ]

    def write(self, saved: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any]) -> None:
        """Set what `read` returned. Raises `CheckpointError` if the model has other parts."""
        parts = _parts(self._model)
        if len(parts) != len(saved):
            raise CheckpointError(
                f"the checkpoint has {len(saved)} layers, losses and optimizers, this model has {len(parts)}",
                "build and compile the model of the checkpoint",
            )
        for each, attributes in zip(parts, saved, strict=True):
            for name, packed in attributes.items():
                setattr(each, name, unpack(packed, arrays))


def _parts(model: Any) -> list[Any]:
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if isinstance(each, keras.losses.Loss)]
    return [*model._flatten_layers(), *losses, *exact.optimizers(model)]


def _attributes(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, keras.Layer):
        yield "trainable", bool(part._trainable)
    for name, value in vars(part).items():
        if not name.startswith("_") and name not in _NOT_SETTINGS and not _has_variables(value):
            yield name, value


def _has_variables(value: Any) -> bool:
    """Whether a value is, or contains, what Keras tracks: its variables are saved as those of the model."""
    return any(
        isinstance(each, keras.Layer | keras.Variable | keras.random.SeedGenerator)
        for each in keras.tree.flatten(value)
    )


def _changed(
    part: Any, before: Mapping[str, Any], path: str, arrays: MutableMapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for name, value in _attributes(part):
        if content(value) != before.get(name):
            try:
                yield name, pack(value, f"{path}/{name}", arrays)
            except CannotPackError:
                continue
