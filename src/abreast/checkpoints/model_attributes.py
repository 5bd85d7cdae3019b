"""Attributes that callbacks change on a model's layers, losses, metrics and optimizers: a `trainable`, an annealed rate.

Plain data that has changed since the `fit` began is saved, and restored. A name that begins with an underscore is Keras's own,
unless only code of the user's class uses it. A compiled step keeps the attribute values from its compilation; after a restart,
the step is compiled with the checkpoint's values.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import keras

from abreast import exact
from abreast.checkpoints.anew import ANEW
from abreast.checkpoints.plain import CannotPackError, copies, pack, unpack
from abreast.checkpoints.reached import contents_of_steps, is_compiled, is_users, names_in
from abreast.errors import CheckpointError
from abreast.feed.values import content
from abreast.stderr import tell_once

_NOT_SETTINGS = ("built", "stop_training", "history", "train_function", "test_function", "predict_function")


@dataclass(frozen=True)
class _Compiled:
    """A training step, the attributes of the model's parts when it was compiled, and the data that its code then reached."""

    step: weakref.ref[Any]
    parts: list[tuple[weakref.ref[Any], dict[str, Any]]]
    reached: dict[str, Any]


_compiled: WeakKeyDictionary[Any, _Compiled] = WeakKeyDictionary()  # by model; nothing in it keeps a model


class ModelAttributes:
    """The attributes of all parts of a model. Made when a `fit` begins: values that do not change later come from the script."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # Keeps the objects themselves: after an object's end, another one could have its identity.
        self._begin = [(each, _contents(each)) for each in _parts(model)]
        self._of_compile = _of_compile(model)
        self._step: Any = None
        self._held: dict[int, dict[str, Any]] = {}

    def hold(self) -> None:
        """Remember the values at the beginning of the `fit`: `write` restores them if a saved state lacks them."""
        self._held = {id(each): copies(dict(_attributes(each))) for each, _ in self._begin}

    def let_go(self) -> None:
        self._held = {}

    def step_done(self) -> None:
        """After a training step: if the step function is new, note the attributes with which it was compiled."""
        if (step := self._model.train_function) is self._step:
            return
        self._step = step
        known = _compiled.get(self._model)
        if is_compiled(self._model) and (known is None or known.step() is not step):
            parts = [(weakref.ref(each), _contents(each)) for each in _parts(self._model)]
            _compiled[self._model] = _Compiled(weakref.ref(step), parts, contents_of_steps(self._model))

    def replaced(self) -> list[str]:
        """Class names of the model's layers, losses, metrics and optimizers that were replaced since the `fit` began."""
        present = {id(each) for each in (*_parts(self._model), *_of_compile(self._model))}
        begin = (*(each for each, _ in self._begin), *self._of_compile)
        return [type(each).__name__ for each in begin if id(each) not in present]

    def read(self, arrays: MutableMapping[str, Any]) -> list[dict[str, Any]]:
        """The changed attributes of each part, in the same order in every process; arrays go to `arrays`.

        A part that was made after the `fit` began, as TensorFlow does in the first step, counts as unchanged.
        """
        before = {id(each): contents for each, contents in self._begin}
        now = [(each, _contents(each)) for each in _parts(self._model)]
        self._say_what_is_compiled({id(each): contents for each, contents in now})
        return [
            dict(_packed(each, contents, before[id(each)], f"attributes/{number}", arrays))
            if id(each) in before
            else {}
            for number, (each, contents) in enumerate(now)
        ]

    def write(self, saved: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any]) -> None:
        """Set the attributes that `read` returned. Raises `CheckpointError` if the model has other parts."""
        parts = _parts(self._model)
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
        held, now = self._held.get(id(part), {}), dict(_attributes(part))
        return copies(
            {name: value for name, value in held.items() if name in now and content(now[name]) != content(value)}
        )

    def _say_what_is_compiled(self, now: Mapping[int, Mapping[str, Any]]) -> None:
        if self._step is None or not is_compiled(self._model):
            return
        compiled, reached = _compiled[self._model], contents_of_steps(self._model)
        for name in reached.keys() & compiled.reached.keys():
            if reached[name] != compiled.reached[name]:
                tell_once(_COMPILED.format(name.partition(".")[2].removesuffix(".variables")))
        for reference, contents in compiled.parts:
            if (part := reference()) is None:
                continue
            present = now[id(part)] if id(part) in now else _contents(part)
            for name in present.keys() & contents.keys():
                compiles_anew = name == "trainable" and keras.backend.backend() == "jax"
                if contents[name] != present[name] and not compiles_anew:
                    tell_once(_COMPILED.format(f"{type(part).__name__}.{name}"))


_COMPILED = (
    "{} has changed, and the training step may be compiled with its former value: the step of a restart is compiled with the "
    "present one\n"
    "hint: call model.make_train_function(force=True) after the change, or keep the value in a keras.Variable of a layer"
)


def _of_compile(model: Any) -> list[Any]:
    """Keras's own objects for the losses and metrics that `compile` got."""
    return [each for name in ("_compile_loss", "_compile_metrics") if (each := getattr(model, name, None)) is not None]


def _contents(part: Any) -> dict[str, Any]:
    return {name: content(value) for name, value in _attributes(part)}


def _parts(model: Any) -> list[Any]:
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if isinstance(each, keras.losses.Loss)]
    metrics = [each for each in exact.leaf_metrics(model) if is_users(type(each).__module__)]
    return [*model._flatten_layers(), *losses, *exact.optimizers(model), *metrics]


def _attributes(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, keras.Layer):
        yield "trainable", bool(part._trainable)
    kind: Any = type(part)
    private = _private_names(kind)
    for name, value in vars(part).items():
        is_keras = name.startswith("_") and name not in private
        if not is_keras and name not in _NOT_SETTINGS and not _has_variables(value):
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


def _packed(
    part: Any, now: Mapping[str, Any], before: Mapping[str, Any], path: str, arrays: MutableMapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The attributes of a part whose contents have changed."""
    for name, value in _attributes(part):
        if now[name] != before.get(name):
            try:
                yield name, pack(value, f"{path}/{name}", arrays)
            except CannotPackError:
                is_keras = type(value).__module__.partition(".")[0] == "keras"  # Keras makes its own objects again
                if name in before and not is_keras:
                    tell_once(_LEFT_OUT.format(f"{type(part).__name__}.{name}", type(value).__qualname__))


_LEFT_OUT = "checkpoints leave out {} (a {}), which has changed: after a restart it is as the script makes it"
