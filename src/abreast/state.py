"""`TrainingState`: the state of a training at one moment, read from a model and restored.

Here: variables of the model, its optimizers and metrics, buffers of PyTorch's modules, attributes that `fit` sets on the model,
callbacks, and random generators. Not here: the same for another process, with the place in the data source (`checkpoints/`).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast import exact
from abreast.backend import current_backend
from abreast.backend.instruments import Kept
from abreast.keras_private import global_state

# Attributes of a model that calls of `fit` and its siblings change.
_OF_CALLS = (
    *("train_function", "test_function", "predict_function", "history", "stop_training", "steps_per_execution"),
    *("_jit_compile", "_run_eagerly", "_eval_epoch_iterator"),
)


@dataclass(frozen=True)
class RandomState:
    """The global random generators: Python's, NumPy's, the framework's and Keras's, and those of PyTorch's workers for a model.

    Keras's generator is a variable that Keras creates at its first use; before that, it is None here.
    """

    python: Any
    numpy: Any
    framework: Any
    keras: Any
    keras_value: Any

    @staticmethod
    def read(model: Any) -> RandomState:
        framework = current_backend().instruments.random_state(model)
        own = global_state.get_global_attribute(global_state.GLOBAL_SEED_GENERATOR)
        value = None if own is None else np.array(own.state)
        return RandomState(random.getstate(), np.random.get_state(), framework, own, value)

    def put_back(self, model: Any) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        current_backend().instruments.set_random_state(self.framework, model)
        global_state.set_global_attribute(global_state.GLOBAL_SEED_GENERATOR, self.keras)
        if self.keras is not None:
            self.keras.state.assign(self.keras_value)


@contextmanager
def kept_random(model: Any) -> Iterator[None]:
    """Restore the random generators at the end of the block: all generators of a model's steps; with None, this process's."""
    state = RandomState.read(model)
    try:
        yield
    finally:
        state.put_back(model)


@dataclass(frozen=True)
class TrainingState:
    """The state of a built model, its optimizers, metrics and callbacks at one moment."""

    model: Any
    variables: tuple[tuple[Any, Any], ...]  # each Keras variable with its value in NumPy
    buffers: Kept | None
    attributes: dict[str, Any]  # the model's attributes by name
    callbacks: tuple[tuple[Any, dict[str, Any]], ...]  # each callback with its attributes

    @staticmethod
    def read(model: Any, callbacks: Iterable[Any] = ()) -> TrainingState:
        return TrainingState(
            model,
            tuple((variable, np.array(variable)) for _, variable in grouped_variables(model)),
            current_backend().instruments.keep_buffers(model),
            {name: model.__dict__[name] for name in _OF_CALLS if name in model.__dict__},
            tuple(
                (callback, {name: _copied(value) for name, value in vars(callback).items()}) for callback in callbacks
            ),
        )

    def put_back(self) -> None:
        for variable, value in self.variables:
            variable.assign(value)
        if self.buffers is not None:
            self.buffers.put_back()
        for name, value in self.attributes.items():
            object.__setattr__(self.model, name, value)
        for callback, attributes in self.callbacks:
            vars(callback).clear()
            vars(callback).update(attributes)


def grouped_variables(model: Any) -> Iterator[tuple[str, Any]]:
    """Every variable of a model, its metrics and its optimizers, once, with its group: `model`, `metrics` or `optimizer`."""
    seen: set[int] = set()
    for group, variables in _groups(model):
        for variable in variables:
            if id(variable) not in seen:
                seen.add(id(variable))
                yield group, variable


def _groups(model: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    yield "model", model.variables
    yield "metrics", model.metrics_variables
    yield from (("metrics", metric.variables) for metric in exact.leaf_metrics(model))
    yield from (("optimizer", optimizer.variables) for optimizer in exact.optimizers(model))


def _copied(value: Any) -> Any:
    """A copy of a container or an array, which a callback may change in place; any other value unchanged."""
    return copy.copy(value) if isinstance(value, list | dict | set | np.ndarray) else value
