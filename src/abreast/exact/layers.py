"""Layers whose result or state depends on which rows a replica sees: BatchNormalization, random layers, running state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from abreast.errors import ModelError
from abreast.exact import global_draws
from abreast.exact.assignments import assigned_weights, is_in_optimizer
from abreast.exact.dry_run import is_dry_run
from abreast.exact.members import leaf_metrics
from abreast.exact.replica import Replica, current, with_gradient_times
from abreast.exact.warn_once import warn_once

_SEED_STRIDE = 1_000_003  # the seeds of two generators are unlikely to differ by this number
_plain_next: Any = keras.random.SeedGenerator.next
_plain_moments: Any = keras.layers.BatchNormalization._moments
_plain_add_weight: Any = keras.layers.Layer.add_weight


def moments(layer: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
    """Mean and variance over the rows of all replicas (Chan's combination of the parts, so nothing cancels)."""
    if is_dry_run():  # BatchNormalization is known to relate rows; the dry run looks for other layers that do
        return ops.cast(layer.moving_mean, inputs.dtype), ops.cast(layer.moving_variance, inputs.dtype)
    running = current()
    if running is None or running.link.num_replicas == 1 or not running.global_batch_norm:
        return _plain_moments(layer, inputs, mask)  # type: ignore[no-any-return]
    if mask is not None:
        return _masked_moments(running, layer, inputs, mask)
    mean, variance = ops.moments(inputs, axes=layer._reduction_axes)
    parts = exchange(running, running.link.all_stack, ops.stack([mean, variance]))  # (replicas, 2, channels)
    weights = ops.cast(running.counts, inputs.dtype) / ops.cast(running.total_rows, inputs.dtype)
    weights = ops.reshape(weights, (-1, 1))
    mean = ops.sum(weights * parts[:, 0], axis=0)
    variance = ops.sum(weights * (parts[:, 1] + ops.square(parts[:, 0] - mean)), axis=0)
    return mean, variance


def _masked_moments(running: Replica, layer: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
    axes = layer._reduction_axes
    counts = ops.cast(ops.expand_dims(mask, -1), inputs.dtype)
    counts = ops.broadcast_to(counts, ops.shape(inputs)) * ops.cast(running.rows > 0, inputs.dtype)
    sums = ops.stack([ops.sum(inputs * counts, axis=axes), ops.sum(counts, axis=axes)])
    sums = exchange(running, running.link.all_sum, sums)
    divisor = sums[1] + keras.config.epsilon()
    mean = sums[0] / divisor
    shape = [1] * len(inputs.shape)
    shape[layer.axis] = -1
    distances = ops.square(inputs - ops.reshape(mean, shape)) * counts
    return mean, exchange(running, running.link.all_sum, ops.sum(distances, axis=axes)) / divisor


def add_weight(layer: Any, *arguments: Any, **options: Any) -> Any:
    """Keras's `add_weight`, refused in a replica's step: the other replicas would lack the variable."""
    running = current()
    if running is not None and running.counts.shape[0] > 1:
        raise ModelError(
            f"{layer.name} is built inside a step, separately on each device: `call` of {running.model.name} does not build it",
            "build it before fit, by calling it once",
        )
    return _plain_add_weight(layer, *arguments, **options)


def exchange(running: Replica, meet: Callable[[Any], Any], tensor: Any) -> Any:
    """An exchange inside a model; in its gradient, each replica's loss is weighted by the replica's rows.

    In a user's own step, gradients are weighted only when they reach the optimizer, by this replica's rows. Parts that came back
    from other replicas are then included. The two factors here correct for that.
    """
    if not running.own_step or not keras.backend.is_float_dtype(tensor.dtype):
        return meet(tensor)
    weight = running.weight_as(tensor.dtype)
    tensor = with_gradient_times(tensor, ops.divide_no_nan(ops.ones_like(weight), weight))
    return with_gradient_times(meet(tensor), weight)


def next_seed(generator: Any, ordered: bool = True) -> Any:
    """The next seed: replica 0 gets Keras's, the others get different ones. The generators' states stay equal: one is saved.

    In an optimizer, all get Keras's: replicas change their weights alike.
    """
    seed = _plain_next(generator, ordered)
    running = _drawing_apart()
    _say_random(running)
    if running is None or running.link.index == 0:
        return seed
    return seed + ops.cast([running.link.index * _SEED_STRIDE, 0], seed.dtype)


def announced(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A random function of Keras that announces its call in a replica's step, also a call without a seed generator."""

    @functools.wraps(plain)
    def draw(*arguments: Any, **settings: Any) -> Any:
        _say_random(_drawing_apart())
        return plain(*arguments, **settings)

    return draw


def _drawing_apart() -> Replica | None:
    """The running replica, whose random numbers are its own; None in an optimizer, where those of all are the same."""
    return None if is_in_optimizer() else current()


def _say_random(running: Replica | None) -> None:
    if running is not None and running.link.num_replicas > 1:
        announce_random(running.model)


def announce_random(model: Any) -> None:
    """Warn, once per model, that each replica draws its own random numbers."""
    warn_once(
        model,
        "random",
        f"{model.name} draws random numbers in its step: each replica draws its own for its rows. If these are for each row by "
        "itself (dropout, noise), training is as random as on one device, with other numbers; if they mix the rows of a batch (a "
        "permutation, as in mixup), each replica mixes only its own rows. KERAS_BACKEND=jax draws the numbers of one device",
    )


@contextmanager
def announcing_draws(model: Any) -> Iterator[list[bool]]:
    """Announce the draws of a model's replicas inside, from global generators; a backend may add those of its framework."""
    with global_draws.noted() as found:
        yield found
    announce_drawn(model, found)


def announce_drawn(model: Any, in_optimizer: Sequence[bool]) -> None:
    """Warn, once per model, of draws that Keras's generators did not make; each entry: whether an optimizer made it."""
    if not in_optimizer:
        return
    announce_random(model)
    if any(in_optimizer):
        warn_once(
            model,
            "random weights",
            f"the optimizer or a constraint of {model.name} draws random numbers without Keras: each replica draws its own, and "
            "their weights drift apart. keras.random with a SeedGenerator draws the same on all",
        )


def moving_statistics(layer: Any) -> list[Any]:
    """The variables of a BatchNormalization that follow the moments of its batches; a subclass may have more state."""
    if not isinstance(layer, keras.layers.BatchNormalization):
        return []
    return [each for each in (layer.moving_mean, layer.moving_variance) if each is not None]


def diverging_variables(replicas: Sequence[Replica], metrics: Sequence[Any] | None = None) -> list[Any]:
    """Variables that each replica changes by its own rows; after a step of `replicas` they are averaged over the rows.

    These are the state of layers, and the weights that a user's own step sets itself: those that the row check found, and
    those that this step has set. `metrics`: the result of `leaf_metrics`, if it is known.
    """
    model, relations = replicas[0].model, replicas[0].relations
    known = leaf_metrics(model) if metrics is None else metrics
    of_metrics = {id(variable) for metric in known for variable in metric.variables}
    found = {}
    for layer in model._flatten_layers():
        equal = set(map(id, moving_statistics(layer))) if replicas[0].global_batch_norm else set()
        # Not `non_trainable_variables`, which includes frozen weights: those are equal already, and an average would round them.
        for variable in layer._non_trainable_variables:
            if id(variable) not in of_metrics | equal and keras.backend.is_float_dtype(variable.dtype):
                found[id(variable)] = variable
    assigned = [] if relations is None else [model.variables[place] for place in sorted(relations.assigned)]
    return [*found.values(), *assigned, *assigned_weights(replicas)]
