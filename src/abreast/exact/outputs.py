"""Outputs of a model that are not one entry per row along the first axis: tokens as rows, time-major outputs, constants.

The row check finds the axes (`Relations.outputs`). Losses and metrics then get the outputs of all replicas, as on one device.
Imports no framework.
"""

from __future__ import annotations

from typing import Any

from keras import ops, tree

from abreast.exact.relations import RowAxes
from abreast.exact.replica import Replica, gather
from abreast.exact.rows import RowAxis
from abreast.keras_private.masks import get_keras_mask, set_keras_mask


def other_axes(running: Replica) -> RowAxes:
    """The row axes of the outputs; () if each output has one entry per row along its first axis."""
    return () if running.relations is None else running.relations.outputs.get(running.kind == "train", ())


def of_all_rows(running: Replica, x: Any, y: Any, y_pred: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    """The batch and the model's outputs of all replicas."""
    x, y, weight = (gather(running, data) for data in (x, y, weight))
    axes = other_axes(running)
    if not axes:
        return x, y, gather(running, y_pred), weight
    leaves = zip(tree.flatten(y_pred), axes, strict=True)
    joined = [leaf if axis is None else _joined(running, leaf, axis) for leaf, axis in leaves]
    return x, y, tree.pack_sequence_as(y_pred, joined), weight


def _joined(running: Replica, leaf: Any, axis: RowAxis) -> Any:
    mask = get_keras_mask(leaf)
    joined = _rows_back(gather(running, _rows_first(leaf, axis)), axis)
    if mask is not None:
        set_keras_mask(joined, _rows_back(gather(running, _rows_first(mask, axis)), axis))
    return joined


def _rows_first(leaf: Any, axis: RowAxis) -> Any:
    """The leaf with one entry per row along its first axis: `(rows, ...)`, or `(rows, times, ...)`."""
    first = ops.moveaxis(leaf, axis.index, 0) if axis.index else leaf
    if axis.times == 1:
        return first
    rows, rest = ops.shape(first)[0] // axis.times, tuple(ops.shape(first)[1:])
    if axis.is_strided:
        return ops.moveaxis(ops.reshape(first, (axis.times, rows, *rest)), 1, 0)
    return ops.reshape(first, (rows, axis.times, *rest))


def _rows_back(joined: Any, axis: RowAxis) -> Any:
    """The inverse of `_rows_first`."""
    if axis.times > 1:
        joined = ops.moveaxis(joined, 0, 1) if axis.is_strided else joined
        joined = ops.reshape(joined, (-1, *ops.shape(joined)[2:]))
    return ops.moveaxis(joined, 0, axis.index) if axis.index else joined
