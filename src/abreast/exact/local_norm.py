"""BatchNormalization over the rows of each device, in a program that sees the rows of all devices (JAX, `batch_norm="local"`).

`Shares` defines the rows of a device, as on every backend. The moving statistics are the mean of the devices' statistics,
weighted by their rows. Not here: the layer on TensorFlow and PyTorch, whose replicas see their own rows (`layers.py`), and
PyTorch's own modules (`backend/torch/batch_norm.py`). Imports no framework.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from abreast.errors import ModelError
from abreast.shares import shares_of

_thread = threading.local()
_plain_call: Any = keras.layers.BatchNormalization.call


@contextmanager
def local_batch_norm(num_devices: int) -> Iterator[None]:
    """Inside, normalize over `num_devices` groups of rows."""
    _install()
    _thread.num_devices = num_devices
    try:
        yield
    finally:
        _thread.num_devices = None


@functools.cache
def _install() -> None:
    keras.layers.BatchNormalization.call = _call


def _call(layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    num_devices = getattr(_thread, "num_devices", None)
    if not num_devices or not training or not layer.trainable:
        return _plain_call(layer, inputs, training=training, mask=mask)
    if getattr(layer, "renorm", False):  # Keras 3.14 and newer
        raise ModelError(f"{layer.name} uses renorm, which local statistics leave undefined", 'use batch_norm="global"')
    return _normalize(layer, inputs, mask, shares_of(inputs.shape[0], num_devices).counts)


def _normalize(layer: Any, inputs: Any, mask: Any, counts: tuple[int, ...]) -> Any:
    x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
    index, back = _grouping(counts)
    # (devices, rows, ...): a smaller group is filled up with row 0, whose weight is 0.
    groups = ops.take(x, index, axis=0)
    weights = np.arange(index.shape[1])[None, :] < np.array(counts)[:, None]
    weights = ops.reshape(ops.cast(weights, x.dtype), (*index.shape, *[1] * (len(x.shape) - 1)))
    weights = ops.broadcast_to(weights, ops.shape(groups))
    if mask is not None:
        weights = weights * ops.expand_dims(ops.cast(ops.take(mask, index, axis=0), x.dtype), -1)
    axes = [axis + 1 for axis in layer._reduction_axes]
    sizes = ops.maximum(ops.sum(weights, axis=axes, keepdims=True), 1)
    mean = ops.sum(groups * weights, axis=axes, keepdims=True) / sizes
    variance = ops.sum(ops.square(groups - mean) * weights, axis=axes, keepdims=True) / sizes
    _move(layer, ops.squeeze(mean, axes), ops.squeeze(variance, axes), counts)
    outputs = (groups - mean) * ops.rsqrt(variance + layer.epsilon)
    outputs = ops.take(ops.reshape(outputs, (-1, *x.shape[1:])), back, axis=0)
    shape = [1] * len(x.shape)
    shape[layer.axis] = -1
    if layer.scale:
        outputs = outputs * ops.reshape(ops.cast(layer.gamma, x.dtype), shape)
    if layer.center:
        outputs = outputs + ops.reshape(ops.cast(layer.beta, x.dtype), shape)
    return ops.cast(outputs, layer.compute_dtype)


def _grouping(counts: tuple[int, ...]) -> tuple[Any, Any]:
    """`(index of the row at each place of each group, place of each row)`; a place beyond a group's rows holds row 0."""
    width = max(counts)
    index = np.zeros((len(counts), width), np.int32)
    back: list[int] = []
    start = 0
    for group, count in enumerate(counts):
        index[group, :count] = np.arange(start, start + count)
        back.extend(range(group * width, group * width + count))
        start += count
    return index, np.array(back, np.int32)


def _move(layer: Any, mean: Any, variance: Any, counts: tuple[int, ...]) -> None:
    share = ops.reshape(ops.cast(np.array(counts) / sum(counts), mean.dtype), (-1, 1))
    for moving, now in ((layer.moving_mean, mean), (layer.moving_variance, variance)):
        now = ops.sum(now * share, axis=0)
        moving.assign(ops.cast(moving, now.dtype) * layer.momentum + now * (1.0 - layer.momentum))
