"""The gradients of embeddings (`IndexedSlices`) on the replicas, in parts that have the same indices on every replica or not.

Keras's optimizers square such a gradient entry by entry, so the entries must be those of one device. Entries for a replica's own
rows are joined. Entries for all rows (in code that every replica runs on the rows of all), and for indices that do not follow the
rows (positions), are the same on every replica, and their values are summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from abreast.backend.tensorflow import eager_uses
from abreast.backend.tensorflow.eager_indices import EagerIndices, are_alike
from abreast.backend.tensorflow.operations import OF_SHAPES, behind
from abreast.backend.tensorflow.processes import Processes

ALL_ROWS = "abreast_all_rows"  # a name scope of operations on the rows of all replicas; their gradients have it, too


class SameIndices:
    """Finds the parts of gradients that have the same indices on every replica.

    Where a trace knows the number of rows, it may make constants for them (`zeros_like`). Whether constant indices are those of
    rows then shows in another trace, for any number of rows.
    """

    def __init__(self, model: Any, processes: Processes | None) -> None:
        """`processes`: those of other replicas, which decide alike where operations run at once."""
        self._eager = EagerIndices(model, processes)
        self.begin(0)

    def begin(self, rows: int, known: Sequence[bool] = ()) -> None:
        """Begin a trace with `rows` rows on a replica, 0 for any number; `known`: what such a trace `found`."""
        self._rows, self._known = rows, known
        self._eager.begin(rows)
        self.found: list[bool] = []  # for each part in this trace, whether the indices are the same on every replica
        self.is_unclear = False

    def parts_of(self, column: Sequence[Any]) -> Iterator[tuple[list[Any], bool]]:
        """The parts of one gradient, each as the replicas' slices, and whether their indices are the same on every replica."""
        is_eager = tf.executing_eagerly()
        rows = [eager_uses.split(slices) if is_eager else _split(slices) for slices in column]
        parts = list(zip(*rows, strict=True)) if len(set(map(len, rows))) == 1 else [column]
        are_same = self._eager.are_same(parts) if is_eager else map(self._are_same, parts)
        yield from zip(map(list, parts), are_same, strict=True)

    def _are_same(self, part: Sequence[Any]) -> bool:
        same = _have_equal_shapes(part) and not any(_follows_own_rows(each.indices.op) for each in part)
        number = len(self.found)
        if same and self._rows and _may_be_of_rows(part[0].indices, self._rows):
            same = self._known[number] if number < len(self._known) else same
            self.is_unclear = True
        self.found.append(same)
        return same


def _have_equal_shapes(part: Sequence[Any]) -> bool:
    """Whether no lengths are known to differ: a known number of rows may have made indices of that length."""
    return all(part[0].indices.shape.is_compatible_with(each.indices.shape) for each in part)


def _split(slices: Any) -> list[Any]:
    """The slices of each use of a table; TensorFlow joins those of several uses."""
    uses = _uses(slices.indices)
    if len(uses) == 1:
        return [slices]
    values = tf.split(slices.values, tf.stack([tf.size(indices) for indices in uses]), num=len(uses))
    return [tf.IndexedSlices(each, indices, slices.dense_shape) for each, indices in zip(values, uses, strict=True)]


def _uses(indices: Any) -> list[Any]:
    if indices.op.type != "ConcatV2":  # the indices of one use come from a `Reshape`
        return [indices]
    return [use for part in indices.op.inputs[:-1] for use in _uses(part)]


def _follows_own_rows(operation: Any) -> bool:
    """Whether indices come from the rows of one replica, or from their number."""
    if ALL_ROWS in operation.name:
        return False
    captured = {id(inside.op) for _, inside in operation.graph.captures}
    return any(each.type == "Placeholder" and id(each) not in captured for each in behind(operation, _values_read))


def _values_read(operation: Any) -> Sequence[Any]:
    """The inputs of an operation; none if it reads from a shape what is not the number of rows."""
    inputs: Sequence[Any] = operation.inputs
    if operation.type == "StridedSlice" and inputs[0].op.type in OF_SHAPES:
        begin = tf.get_static_value(inputs[1])
        return inputs if begin is None or begin[0] == 0 else ()
    return inputs


def _may_be_of_rows(indices: Any, rows: int) -> bool:
    """Whether constant indices may be those of so many rows, all alike."""
    if ALL_ROWS in indices.op.name:
        return False
    length, values = indices.shape[0], _constant(indices)
    if length is not None and length % rows:
        return False
    return values is None or are_alike(values, rows)


def _constant(tensor: Any) -> Any:
    """The values of constant indices, in one row; None if they are not known before the step runs."""
    values = tf.get_static_value(_origin(tensor))
    return None if values is None else np.ravel(values)


def _origin(tensor: Any) -> Any:
    """The indices that the user's code looks up: before Keras counts negative ones from the end, and before they are one row."""
    place = {"SelectV2": 2, "Reshape": 0, "Cast": 0, "Identity": 0}.get(tensor.op.type)
    return tensor if place is None else _origin(tensor.op.inputs[place])


def joined(parts: Sequence[Any]) -> Any:
    """The slices of several parts of one gradient, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    values, indices = (tf.concat([getattr(part, name) for part in parts], axis=0) for name in ("values", "indices"))
    return tf.IndexedSlices(values, indices, parts[0].dense_shape)


def are_unique(slices: Any) -> bool:
    """Whether the user's code looks up each index once, however many rows have it (`tf.unique`)."""
    if tf.executing_eagerly():
        return eager_uses.are_unique(slices)
    return _origin(slices.indices).op.type in ("Unique", "UniqueV2", "UniqueWithCounts")


def unique(slices: Any) -> Any:
    """The slices with the sum of the entries of each index."""
    indices, places = tf.unique(slices.indices)
    return tf.IndexedSlices(
        tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices)), indices, slices.dense_shape
    )
