"""Tensors whose rows lie along any axis: a function of their rows, and the axis in front. Imports no framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keras import ops, tree

from abreast.exact.relations import RowAxes
from abreast.exact.rows import RowAxis
from abreast.keras_private import attached


def mapped(data: Any, axes: RowAxes, change: Callable[..., Any]) -> Any:
    """The data with `change(leaf, axis=axis)` in place of every tensor that has an axis of rows."""
    leaves = tree.flatten(data)
    for index, axis in enumerate(axes):
        if axis is not None and ops.is_tensor(leaves[index]):
            leaves[index] = attached.of_rows(leaves[index], functools.partial(change, axis=axis), axis.index)
    return tree.pack_sequence_as(data, leaves)


def rows_first(leaf: Any, axis: RowAxis) -> Any:
    """The leaf with one entry per row along its first axis: `(rows, ...)`, or `(rows, times, ...)`."""
    first = ops.moveaxis(leaf, axis.index, 0) if axis.index else leaf
    if axis.times == 1:
        return first
    rows, rest = ops.shape(first)[0] // axis.times, tuple(ops.shape(first)[1:])
    if axis.is_strided:
        return ops.moveaxis(ops.reshape(first, (axis.times, rows, *rest)), 1, 0)
    return ops.reshape(first, (rows, axis.times, *rest))


def rows_back(joined: Any, axis: RowAxis) -> Any:
    """The inverse of `rows_first`."""
    if axis.times > 1:
        joined = ops.moveaxis(joined, 0, 1) if axis.is_strided else joined
        joined = ops.reshape(joined, (-1, *ops.shape(joined)[2:]))
    return ops.moveaxis(joined, 0, axis.index) if axis.index else joined
