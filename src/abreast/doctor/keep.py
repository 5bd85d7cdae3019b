"""A model as it was: what a diagnosis changes (weights, optimizer, random generators, callbacks) and puts back.

Imports Keras, NumPy and `backend`.
"""

from __future__ import annotations

import copy
import functools
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state

from abreast.backend import current_backend

# Attributes that hold where callbacks of Keras write.
_WRITTEN = {
    keras.callbacks.ModelCheckpoint: ("filepath",),
    keras.callbacks.CSVLogger: ("filename",),
    keras.callbacks.TensorBoard: ("log_dir",),
}
_SEEDS = "global_seed_generator"
_ATTRIBUTES = (
    *("train_function", "test_function", "predict_function", "history", "stop_training", "steps_per_execution"),
    *("_jit_compile", "_run_eagerly", "_eval_epoch_iterator"),
)


def build(model: Any, batch: Any) -> None:
    """Make every variable of a compiled model, its losses, metrics and optimizer, as the first `fit` would."""
    try:
        model._symbolic_build(data_batch=batch)
    except Exception:
        # A model whose train_step calls its parts need not have a `call` of its own.
        if not all(part.built for part in model._flatten_layers(include_self=False)):
            raise


@contextmanager
def kept(model: Any, callbacks: Sequence[Any]) -> Iterator[None]:
    """Put back the variables of a model that is built, and its callbacks, at the end of the block, however it ends."""
    with _kept(model, callbacks), saving_elsewhere(), _writing_elsewhere(callbacks):
        yield


@contextmanager
def _kept(model: Any, callbacks: Sequence[Any]) -> Iterator[None]:
    values = [(variable, np.array(variable)) for variable in _variables(model)]
    attributes = {name: model.__dict__[name] for name in _ATTRIBUTES if name in model.__dict__}
    states = [(callback, {name: _copied(value) for name, value in vars(callback).items()}) for callback in callbacks]
    try:
        yield
    finally:
        for variable, value in values:
            variable.assign(value)
        for name, value in attributes.items():
            object.__setattr__(model, name, value)
        for callback, state in states:
            vars(callback).clear()
            vars(callback).update(state)


def _copied(value: Any) -> Any:
    """A copy of what a callback may add to; anything else is itself."""
    return copy.copy(value) if isinstance(value, list | dict | set | np.ndarray) else value


@contextmanager
def _writing_elsewhere(callbacks: Sequence[Any]) -> Iterator[None]:
    """Redirect callbacks that write files to a temporary folder. The caller restores their attributes."""
    with tempfile.TemporaryDirectory(prefix="abreast-doctor-") as folder:
        for callback in callbacks:
            for kind, names in _WRITTEN.items():
                for name in names if isinstance(callback, kind) else ():
                    path = getattr(callback, name, None)
                    if isinstance(path, str | os.PathLike):
                        setattr(callback, name, os.path.join(folder, os.path.basename(os.path.normpath(path))))
        yield


@contextmanager
def saving_elsewhere() -> Iterator[None]:
    """Redirect models' saving to a temporary folder, so that no checkpoint of the user is overwritten."""
    trainer: Any = keras.Model
    plain = {name: getattr(trainer, name) for name in ("save", "save_weights")}
    with tempfile.TemporaryDirectory(prefix="abreast-doctor-") as folder:
        for name, method in plain.items():
            setattr(trainer, name, _saving_into(folder, method))
        try:
            yield
        finally:
            for name, method in plain.items():
                setattr(trainer, name, method)


def _saving_into(folder: str, plain: Any) -> Any:
    @functools.wraps(plain)
    def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(self, os.path.join(folder, os.path.basename(str(filepath))), *args, **kwargs)

    return save


def _variables(model: Any) -> list[Any]:
    optimizers = [value for value in vars(model).values() if isinstance(value, keras.optimizers.Optimizer)]
    if (own := getattr(model, "optimizer", None)) is not None:
        optimizers.append(own)
    found = [*model.variables, *model.metrics_variables]
    found += [variable for optimizer in optimizers for variable in optimizer.variables]
    seeds = global_state.get_global_attribute(_SEEDS)
    found += [] if seeds is None else [seeds.state]
    return list({id(variable): variable for variable in found}.values())


@contextmanager
def kept_random() -> Iterator[None]:
    """Global generators: Python's, NumPy's, the framework's; Keras's own is a variable, made when it is first needed."""
    backend = current_backend()
    state, legacy, framework = random.getstate(), np.random.get_state(), backend.random_state()
    seeds = global_state.get_global_attribute(_SEEDS)
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(legacy)
        backend.set_random_state(framework)
        global_state.set_global_attribute(_SEEDS, seeds)
