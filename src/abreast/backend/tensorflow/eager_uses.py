"""The uses of an embedding in a step that runs eagerly, where a gradient has no operations behind it that would show them.

TensorFlow joins the gradients of several lookups of one table. This module records the parts, and the results of `tf.unique`.
Not here: their use in a step (`slices.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop_util
from tensorflow.python.ops import gen_array_ops

from abreast import exact

_LENGTHS = "_abreast_lengths"  # an attribute of indices: the number of entries of each use
_UNIQUE = "_abreast_unique"  # an attribute of indices: for each use, whether it has each index once (`tf.unique`)


@functools.cache
def install() -> None:
    """Make TensorFlow's functions leave the notes. Runs once."""
    backprop_util.AggregateIndexedSlicesGradients = _noting_uses(backprop_util.AggregateIndexedSlicesGradients)
    for name in ("unique", "unique_v2", "unique_with_counts", "unique_with_counts_v2"):
        setattr(gen_array_ops, name, _noting_unique(getattr(gen_array_ops, name)))


def _noting_uses(plain: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    @functools.wraps(plain)
    def aggregate(gradients: Sequence[Any]) -> Any:
        total = plain(gradients)
        if exact.is_inside() and tf.executing_eagerly() and isinstance(total, tf.IndexedSlices):
            parts = [each for each in gradients if isinstance(each, tf.IndexedSlices)]
            if total.indices is not parts[0].indices:
                setattr(total.indices, _LENGTHS, [length for each in parts for length in _lengths(each)])
        return total

    return aggregate


def _noting_unique(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def unique(*arguments: Any, **options: Any) -> Any:
        result = plain(*arguments, **options)
        running = exact.working_for()
        if running is not None and tf.executing_eagerly():
            running.unique.append(result.y)
        return result

    return unique


def _lengths(slices: Any) -> list[int]:
    return getattr(slices.indices, _LENGTHS, None) or [int(slices.indices.shape[0])]


def note_unique(gradient: Any) -> None:
    """Note which uses of a replica's gradient have the indices that a `tf.unique` of its step gave."""
    running = exact.working_for()
    if isinstance(gradient, tf.IndexedSlices) and tf.executing_eagerly() and running is not None and running.unique:
        known = [each.numpy() for each in running.unique]
        uses = np.split(gradient.indices.numpy(), np.cumsum(_lengths(gradient))[:-1])
        setattr(gradient.indices, _UNIQUE, [any(np.array_equal(use, each) for each in known) for use in uses])


def split(slices: Any) -> list[Any]:
    """The slices of each use of a table."""
    lengths = _lengths(slices)
    unique = getattr(slices.indices, _UNIQUE, None) or [False] * len(lengths)
    values, indices = tf.split(slices.values, lengths), tf.split(slices.indices, lengths)
    for each, is_unique in zip(indices, unique, strict=True):
        setattr(each, _UNIQUE, [is_unique])
    return [tf.IndexedSlices(*each, slices.dense_shape) for each in zip(values, indices, strict=True)]


def are_unique(slices: Any) -> bool:
    """Whether the slices of one use have each index once."""
    return getattr(slices.indices, _UNIQUE, None) == [True]
