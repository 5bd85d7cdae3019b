"""Layers whose result or state depends on which rows a replica sees: BatchNormalization, random layers, running state.

Imports Keras; no framework.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from abreast.errors import ModelError
from abreast.exact.metrics import leaf_metrics
from abreast.exact.replica import Replica, current, with_gradient_times
from abreast.exact.telling import warn_once

_SEED_STRIDE = 1_000_003  # any number that two generators' seeds are unlikely to differ by
_plain_next: Any = keras.random.SeedGenerator.next
_plain_moments: Any = keras.layers.BatchNormalization._moments


def moments(layer: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
    """Mean and variance over the rows of all replicas (Chan's combination of the parts, so nothing cancels)."""
    running = current()
    if running is None or not running.global_batch_norm:
        return _plain_moments(layer, inputs, mask)  # type: ignore[no-any-return]
    if mask is not None:
        return _masked_moments(running, layer, inputs, mask)
    mean, variance = ops.moments(inputs, axes=layer._reduction_axes)
    parts = _exchange(running, running.link.all_stack, ops.stack([mean, variance]))  # (replicas, 2, channels)
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
    sums = _exchange(running, running.link.all_sum, sums)
    divisor = sums[1] + keras.config.epsilon()
    mean = sums[0] / divisor
    shape = [1] * len(inputs.shape)
    shape[layer.axis] = -1
    distances = ops.square(inputs - ops.reshape(mean, shape)) * counts
    return mean, _exchange(running, running.link.all_sum, ops.sum(distances, axis=axes)) / divisor


def _exchange(running: Replica, exchange: Callable[[Any], Any], tensor: Any) -> Any:
    """An exchange of moments, of which the gradients of all replicas' losses count by their rows.

    A user's own step has them count only when they reach the optimizer: ours by our rows, with what came back from others.
    """
    if not running.own_step:
        return exchange(tensor)
    weight = ops.cast(running.weight, tensor.dtype)
    tensor = with_gradient_times(tensor, ops.divide_no_nan(ops.ones_like(weight), weight))
    return with_gradient_times(exchange(tensor), weight)


def next_seed(generator: Any, ordered: bool = True) -> Any:
    """The next seed, another one on every replica but the first: their states stay equal, so that one can be saved."""
    seed = _plain_next(generator, ordered)
    running = current()
    if running is None or running.link.index == 0:
        return seed
    return seed + ops.cast([running.link.index * _SEED_STRIDE, 0], seed.dtype)


def diverging_variables(model: Any, global_batch_norm: bool) -> list[Any]:
    """State of layers that replicas change by what they see of their own rows: it is averaged over rows after a step."""
    metrics = {id(variable) for metric in leaf_metrics(model) for variable in metric.variables}
    found = {}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and global_batch_norm:
            continue
        # Not `non_trainable_variables`, which has frozen weights too: those are equal, and an average would round them.
        for variable in layer._non_trainable_variables:
            if id(variable) not in metrics and keras.backend.is_float_dtype(variable.dtype):
                found[id(variable)] = variable
    return list(found.values())


def check_layers(model: Any) -> None:
    """Refuse what replicas cannot share, by name; say once which layers keep state that is averaged."""
    own = []
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and isinstance(layer, keras.layers.RNN):
            raise ModelError(
                f"{layer.name} is stateful: it keeps a state for each row of a batch, and each replica has other rows",
                "train it on one device, or with KERAS_BACKEND=jax",
            )
        if getattr(layer, "activity_regularizer", None) is not None and _sums_activity():
            raise ModelError(
                f"{layer.name} has an activity regularizer, which Keras {keras.__version__} sums over the rows of a batch: "
                "replicas would count it by their shares",
                "use Keras 3.15, which takes the mean, or train with KERAS_BACKEND=jax or on one device",
            )
        if layer._non_trainable_variables and not type(layer).__module__.startswith("keras.src."):
            own.append(f"{layer.name} ({', '.join(variable.name for variable in layer._non_trainable_variables)})")
    if own:
        warn_once(
            model,
            "own state",
            f"layers of your own keep state: {'; '.join(own)}. Each replica changes it by its own rows; after a step it is the "
            "mean over the rows if it has a floating type, else that of the first replica. A running mean is then what one "
            "device computes; a sum or a count is not",
        )


@functools.cache
def _sums_activity() -> bool:
    """Whether an activity regularizer adds up over rows, as in older Keras, instead of averaging over them."""
    layer = keras.layers.ActivityRegularization(l1=1.0, name="abreast_sums_activity")
    layer(ops.ones((2, 1)))
    return bool(ops.convert_to_numpy(layer.losses[0]) > 1.5)
