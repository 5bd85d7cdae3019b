"""Attributes that callbacks change on a model's layers, losses, metrics and optimizers: a `trainable`, an annealed rate.

Plain data that has changed since the `fit` began is saved, and restored. Not here: which attributes count
(`part_attributes.py`), and those that a compiled step holds as constants (`compiled_step.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from abreast.checkpoints.anew import ANEW
from abreast.checkpoints.compiled_step import CompiledStep
from abreast.checkpoints.part_attributes import attributes_of, contents_of, parts_of
from abreast.checkpoints.plain import CannotPackError, copies, pack, unpack
from abreast.errors import CheckpointError
from abreast.feed.values import content
from abreast.stderr import tell_once


class ModelAttributes:
    """The attributes of all parts of a model. Made when a `fit` begins: values that do not change later come from the script."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # Keeps the objects themselves: after an object's end, another one could have its identity.
        self._begin = [(each, contents_of(each)) for each in parts_of(model)]
        self._of_compile = _of_compile(model)
        self.compiled = CompiledStep(model)
        self._held: dict[int, dict[str, Any]] = {}

    def hold(self) -> None:
        """Remember the values at the beginning of the `fit`: `write` restores them if a saved state lacks them."""
        self._held = {id(each): copies(dict(attributes_of(each))) for each, _ in self._begin}

    def let_go(self) -> None:
        self._held = {}

    def replaced(self) -> list[str]:
        """Class names of the model's layers, losses, metrics and optimizers that were replaced since the `fit` began."""
        present = {id(each) for each in (*parts_of(self._model), *_of_compile(self._model))}
        begin = (*(each for each, _ in self._begin), *self._of_compile)
        return [type(each).__name__ for each in begin if id(each) not in present]

    def read(self, arrays: MutableMapping[str, Any]) -> list[dict[str, Any]]:
        """The changed attributes of each part, in the same order in every process; arrays go to `arrays`.

        A part that was made after the `fit` began, as TensorFlow does in the first step, counts as unchanged.
        """
        before = {id(each): contents for each, contents in self._begin}
        now = [(each, contents_of(each)) for each in parts_of(self._model)]
        self.compiled.say_what_has_changed({id(each): contents for each, contents in now})
        return [
            dict(_packed(each, contents, before[id(each)], f"attributes/{number}", arrays))
            if id(each) in before
            else {}
            for number, (each, contents) in enumerate(now)
        ]

    def write(self, saved: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any]) -> None:
        """Set the attributes that `read` returned. Raises `CheckpointError` if the model has other parts."""
        parts = parts_of(self._model)
        if len(parts) != len(saved):
            raise CheckpointError(
                f"the checkpoint has {len(saved)} layers, losses and optimizers, this model has {len(parts)}",
                f"build and compile the model of the checkpoint, or {ANEW}",
            )
        for each, attributes in zip(parts, saved, strict=True):
            for name, value in self._changed_since_begin(each).items():
                setattr(each, name, value)
            for name, packed in attributes.items():
                setattr(each, name, unpack(packed, arrays))

    def _changed_since_begin(self, part: Any) -> dict[str, Any]:
        """The held values of attributes that were changed since, for example by hooks of callbacks."""
        held, now = self._held.get(id(part), {}), dict(attributes_of(part))
        return copies(
            {name: value for name, value in held.items() if name in now and content(now[name]) != content(value)}
        )


def _of_compile(model: Any) -> list[Any]:
    """Keras's own objects for the losses and metrics that `compile` got."""
    return [each for name in ("_compile_loss", "_compile_metrics") if (each := getattr(model, name, None)) is not None]


def _packed(
    part: Any, now: Mapping[str, Any], before: Mapping[str, Any], path: str, arrays: MutableMapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The attributes of a part whose contents have changed."""
    for name, value in attributes_of(part):
        if now[name] != before.get(name):
            try:
                yield name, pack(value, f"{path}/{name}", arrays)
            except CannotPackError:
                is_keras = type(value).__module__.partition(".")[0] == "keras"  # Keras makes its own objects again
                if name in before and not is_keras:
                    tell_once(_LEFT_OUT.format(f"{type(part).__name__}.{name}", type(value).__qualname__))


_LEFT_OUT = "checkpoints leave out {} (a {}), which has changed: after a restart it is as the script makes it"
