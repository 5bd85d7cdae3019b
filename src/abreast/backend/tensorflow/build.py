"""Makes every variable of a model, its losses, metrics and optimizer before the first step: by Keras, or by tracing the step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from abreast import exact
from abreast.arrays import map_arrays
from abreast.backend.contract import Kind
from abreast.backend.tensorflow.functions import inlined
from abreast.backend.tensorflow.gradients import build_optimizer
from abreast.backend.tensorflow.staging import to_device
from abreast.feed import HostBatch
from abreast.keras_private.backend import compute_output_spec
from abreast.keras_private.models import KerasTensor
from abreast.replacing import put_on, replaced


def build(kind: Kind, model: Any, batch: HostBatch) -> None:
    """Make every variable of the model, its losses, metrics and, to train, its optimizer, before any is placed."""
    # A function under `tf.function` would keep the trace made here.
    optimizers, before = _building_as_steps if kind == "train" else _keeping_optimizer, len(model.weights)
    with (
        _counting() as made,
        inlined(num_replicas=1),
        optimizers(model),
        exact.noting_build(model),
        _leaving_values(model),
    ):
        _build_parts(kind, model, batch)
    if len(made) > len(model.weights) - before and not model.run_eagerly:
        exact.note_second_trace(model)


def make_metrics(kind: Kind, model: Any, batch: HostBatch) -> None:
    """Make the metrics that a user's own step makes and appends to the model's."""
    with inlined(num_replicas=1), _keeping_optimizer(model), _leaving_values(model):
        _trace(kind, model, batch)


def _build_parts(kind: Kind, model: Any, batch: HostBatch) -> None:
    if kind == "predict":
        if not all(layer.built for layer in model._flatten_layers()):
            x, _, _ = exact.unpack(batch.data)
            compute_output_spec(model, _symbolic(x), training=False)
        return
    own_step = exact.overrides_step(model, kind)
    own_loss = kind == "train" and exact.is_users(model, "compute_loss")  # may build layers, before the optimizer
    if (own_step or own_loss) and not model.run_eagerly:
        if not is_built(model):
            _trace(kind, model, batch)
        return
    try:
        with _without_calls_of_losses(model):
            model._symbolic_build(data_batch=batch.data)
    except Exception:
        # A model whose train_step calls its parts need not have a `call` of its own.
        if own_step:
            return
        if model.run_eagerly:
            _build_eagerly(model, batch)
        elif exact.is_users(model, "compute_metrics") or _has_own_metrics(model):  # they may read what the loss keeps
            _trace(kind, model, batch)
        else:
            raise


def _has_own_metrics(model: Any) -> bool:
    """Whether some metrics of `compile` are the user's functions or classes."""
    compiled = model._compile_metrics
    given = [] if compiled is None else tree.flatten([compiled._user_metrics, compiled._user_weighted_metrics])
    return any(not (each is None or isinstance(each, str) or exact.is_of_keras(each)) for each in given)


def _keeping_optimizer(model: Any) -> AbstractContextManager[None]:
    """Leave the optimizer to `fit`, as plain Keras does: layers may be frozen or unfrozen until then."""
    optimizer = getattr(model, "optimizer", None)
    return nullcontext() if optimizer is None else replaced(optimizer, "built", True)


@contextmanager
def _building_as_steps(model: Any) -> Iterator[None]:
    """Inside, `build` of an optimizer does what it does in the step of plain Keras."""
    with ExitStack() as undo:
        for each in exact.optimizers(model):
            undo.callback(put_on(each, build=functools.partial(build_optimizer, model, each, each.build)))
        yield


def _without_calls_of_losses(model: Any) -> AbstractContextManager[None]:
    """Under `run_eagerly`, make the compiled losses without a call: their Python code would run once more than on one device."""

    def build_losses(x: Any, y: Any, y_pred: Any, **options: Any) -> Any:
        model._compile_loss.build(y, y_pred)
        return tf.constant(0.0)

    return replaced(model, "_compute_loss", build_losses) if model.run_eagerly else nullcontext()


def _build_eagerly(model: Any, batch: HostBatch) -> None:
    """Make the variables with a call of the model, which may need values of tensors; so may losses and metrics."""
    x, y, _ = exact.unpack(map_arrays(to_device, batch.data))
    y_pred = model(x)
    for compiled in (model._compile_metrics, model._compile_loss):
        if compiled is not None and not compiled.built:
            compiled.build(y, y_pred)
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _trace(kind: Kind, model: Any, batch: HostBatch) -> None:
    """Make the variables that a step makes, as plain Keras does: the model may have no `call`, or one that calls fewer layers."""
    data, step = map_arrays(to_device, batch.data), getattr(model, f"{kind}_step")
    tf.function(lambda batch: step(batch), autograph=False).get_concrete_function(data)


@contextmanager
def _leaving_values(model: Any) -> Iterator[None]:
    """Inside, what the user's code sets in Python is put back, unless it makes variables: then it may say that they are there."""
    before = _num_compiled(model)
    with _counting() as made, exact.leaving_values(model, lambda: len(made) > _num_compiled(model) - before):
        yield


@contextmanager
def _counting() -> Iterator[list[None]]:
    """Inside, each variable that is made adds an entry to the list."""
    made: list[None] = []

    def counting(make: Callable[..., Any], **options: Any) -> Any:
        made.append(None)
        return make(**options)

    with tf.variable_creator_scope(counting):
        yield made


def _num_compiled(model: Any) -> int:
    """The number of variables of a model's optimizers, and of the metrics that `compile` has got."""
    parts = (*exact.optimizers(model), model._compile_metrics, model._compile_loss)
    return sum(len(part.variables) for part in parts if part is not None)


def is_built(model: Any) -> bool:
    """Whether a model, its losses, metrics and optimizers have their variables."""
    compiled = (model._compile_metrics, model._compile_loss, *exact.optimizers(model))
    return all(part.built for part in (*model._flatten_layers(), *compiled) if part is not None)


def _symbolic(data: Any) -> Any:
    return tree.map_structure(lambda leaf: KerasTensor(leaf.shape, keras.backend.standardize_dtype(leaf.dtype)), data)
