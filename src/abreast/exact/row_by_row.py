"""Outputs of a member that relates rows, with a gradient of each row by itself.

With them, the gradient of a user's step follows the rows as the step's own code does: the member's relation does not count, and
steps run the member on the rows of all replicas. Imports no framework.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops, tree

from abreast.exact.relations import CallAxes
from abreast.exact.rows import RowAxis, rising
from abreast.exact.tensor_rows import mapped, rows_back, rows_first
from abreast.keras_private import attached


def row_by_row(outputs: Any, given: Any, weights: list[Any], axes: CallAxes) -> Any:
    """The outputs, whose gradient reaches the inputs `given` of the same rows, and the weights, instead of its own way."""
    sums = [ops.mean(ops.cast(weight, "float32")) for weight in weights]

    def note(leaf: Any, axis: RowAxis) -> Any:
        if keras.backend.is_float_dtype(leaf.dtype):
            rows = rows_first(ops.cast(leaf, "float32"), axis)
            sums.append(ops.mean(ops.reshape(rows, (ops.shape(rows)[0], -1)), axis=1))
        return leaf

    mapped(given, axes.inputs, note)
    total = sum(sums[1:], sums[0]) if sums else ops.zeros(())
    zeros = total - ops.stop_gradient(total)  # one per row, or one for all
    passing = mapped(tree.map_structure(_fixed, outputs), axes.outputs, functools.partial(_plus, zeros=zeros))
    for leaf, other in zip(tree.flatten(outputs), tree.flatten(passing), strict=True):
        attached.keep_mask(leaf, other)  # not the logits of a softmax, which have their own gradient
    return passing


def _fixed(leaf: Any) -> Any:
    return ops.stop_gradient(leaf) if _is_float(leaf) else leaf


def _is_float(leaf: Any) -> bool:
    return bool(ops.is_tensor(leaf) and keras.backend.is_float_dtype(leaf.dtype))


def _plus(leaf: Any, axis: RowAxis, zeros: Any) -> Any:
    """The leaf plus the zeros, with another factor for each entry: a softmax lets no gradient through that is equal for all."""
    if not _is_float(leaf):
        return leaf
    rows = rows_first(leaf, axis)
    entries = tuple(rows.shape[1:])
    per_row = ops.reshape(zeros, (-1, *(1 for _ in entries)))
    return rows_back(rows + ops.cast(ops.multiply(per_row, rising((1, *entries))), leaf.dtype), axis)
