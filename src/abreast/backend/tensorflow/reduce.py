"""Sums over replicas: first within one TensorFlow process, by NCCL on GPUs, else on one device; then over all processes.

The callers pass the values of all replicas, after the last replica has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.values import PerReplica

from abreast.backend.tensorflow.processes import Processes
from abreast.backend.tensorflow.slices import SameIndices, are_unique, joined, unique
from abreast.errors import ModelError

_key_bases = count(1000, 1000)


class _Strategy(tf.distribute.MirroredStrategy):  # type: ignore[misc]  # TensorFlow has no types
    """A `MirroredStrategy` with its own collective keys, so that a process can have several such strategies.

    Two strategies with the same keys and different numbers of devices disagree about the size of one group.
    """

    def __init__(self, devices: list[str]) -> None:
        self._collective_key_base = next(_key_bases)
        super().__init__(devices)


@lru_cache(maxsize=64)
def _strategy(devices: tuple[str, ...]) -> Any:
    """One strategy for each tuple of TensorFlow's device names."""
    return _Strategy(list(devices))


def add_in_order(values: Sequence[Any]) -> Any:
    """The sum of tensors, added in the given order, so that a repeated job gives the same bits.

    `tf.add_n` begins with the first tensor whose memory it may reuse, which varies with timing, and TensorFlow rewrites a
    chain of `tf.add` to `tf.add_n`. Here the first two tensors are added first: their sum does not depend on the order. No other
    operation reads that sum, so `tf.add_n` may always reuse its memory and begins with it. The sum's shape is hidden, so that
    TensorFlow does not rewrite the chain.
    """
    if len(values) < 3:
        return tf.add_n(values)
    first_two = tf.raw_ops.PlaceholderWithDefault(input=tf.add(values[0], values[1]), shape=None)
    return tf.add_n([first_two, *values[2:]])


class Reducer:
    """All-reduce over devices, given by TensorFlow's names, and over the devices of other processes."""

    def __init__(self, devices: tuple[str, ...], processes: Processes | None = None, model: Any = None) -> None:
        self._devices = devices
        self._processes = processes
        self.same_indices = SameIndices(model, processes)
        self._use_nccl = all("GPU" in device for device in devices) and len(devices) > 1

    def sum(self, values: list[Any]) -> list[Any]:
        """The sum of one tensor per replica, returned once per replica."""
        return [row[0] for row in self._sum_columns([tuple(values)], Processes.sum)]

    def sum_gradients(self, values: list[list[Any]]) -> list[list[Any]]:
        """The sums of the gradients, returned once per replica; all replicas pass their gradients in one order.

        Gradients of embeddings (`IndexedSlices`) are not made dense: see `slices.py`.
        """
        columns = list(zip(*values, strict=True))
        dense = [column for column in columns if isinstance(column[0], (tf.Tensor, tf.Variable))]
        sums = [iter(row) for row in self._sum_columns(dense, Processes.sum_gradients)]
        joined = [self._join_slices(column) if isinstance(column[0], tf.IndexedSlices) else None for column in columns]
        return [
            [
                None if column[0] is None else slices or next(rows)
                for column, slices in zip(columns, joined, strict=True)
            ]
            for rows in sums
        ]

    def without_gaps(self, values: list[list[Any]], weights: Sequence[Any]) -> list[list[Any]]:
        """The gradients of each replica, with zeros where only other replicas have one: Python may choose the weights by rows.

        Returns `values` itself if all replicas have gradients for the same `weights`.
        """
        columns = list(zip(*values, strict=True))
        numbers: Any = [sum(gradient is not None for gradient in column) for column in columns]
        total = len(values)
        if self._processes is not None and tf.executing_eagerly():
            numbers, total = (each.numpy() for each in self._processes.sum([tf.constant(numbers), tf.constant(total)]))
        if all(number in (0, total) for number in numbers):
            return values
        filled = [
            column if number in (0, total) else self._filled(column, weight)
            for column, number, weight in zip(columns, numbers, weights, strict=True)
        ]
        return [list(row) for row in zip(*filled, strict=True)]

    def _filled(self, column: Sequence[Any], weight: Any) -> list[Any]:
        """The gradients of a weight; for a replica without one, zeros, or of an embedding no entries."""
        slices = next((each for each in column if isinstance(each, tf.IndexedSlices)), None)
        if self._processes is not None and (slices is not None or all(each is None for each in column)):
            raise ModelError(
                f"the rows of a process choose whether the loss depends on {weight.path}",
                "use every weight at every step, or train in one process",
            )
        if slices is not None:
            none = tf.IndexedSlices(slices.values[:0], slices.indices[:0], slices.dense_shape)
            return [none if each is None else each for each in column]
        filled = []
        for each, device in zip(column, self._devices, strict=True):
            with tf.device(device):
                filled.append(tf.zeros(weight.shape, weight.dtype) if each is None else each)
        return filled

    def sum_once(self, columns: list[tuple[Any, ...]]) -> list[Any]:
        """The sums of several tensors, each passed once per replica of this process; all go in one message."""
        own = [add_in_order(column) for column in columns]
        return own if self._processes is None else self._processes.sum(own)

    def _sum_columns(
        self, columns: list[tuple[Any, ...]], over_processes: Callable[[Processes, list[Any]], list[Any]]
    ) -> list[list[Any]]:
        sums = self._sum_own(columns)
        if self._processes is None or not columns:
            return sums
        return [over_processes(self._processes, sums[0])] * len(self._devices)

    def _sum_own(self, columns: list[tuple[Any, ...]]) -> list[list[Any]]:
        if len(self._devices) == 1:
            return [[column[0] for column in columns]]
        if self._use_nccl and columns:
            return self._sum_by_nccl(columns)
        sums = []
        for index, column in enumerate(columns):
            with tf.device(self._devices[index % len(self._devices)]):
                sums.append(add_in_order(column))
        return [sums] * len(self._devices)

    def _join_slices(self, column: tuple[Any, ...]) -> Any:
        parts = [
            self._sum_part(part) if is_alike else self._join_part(part)
            for part, is_alike in self.same_indices.parts_of(column)
        ]
        return joined(parts)

    def _join_part(self, part: Sequence[Any]) -> Any:
        """The slices of all replicas, one replica after the other; each index once if that is so on one device."""
        whole = joined(part)
        if self._processes is not None:
            values, indices = self._processes.rows(whole.values), self._processes.rows(whole.indices)
            whole = tf.IndexedSlices(values, indices, whole.dense_shape)
        return unique(whole) if are_unique(part[0]) else whole

    def _sum_part(self, part: Sequence[Any]) -> Any:
        """The sum of slices that have the same indices on every replica."""
        values = self.sum_once([tuple(each.values for each in part)])[0]
        return tf.IndexedSlices(values, part[0].indices, part[0].dense_shape)

    def _sum_by_nccl(self, columns: list[tuple[Any, ...]]) -> list[list[Any]]:
        placed = _strategy(self._devices)
        with placed.scope():
            pairs = [(value, value) for value in map(PerReplica, columns)]
            sums = placed.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        return [[total.values[index] for total in sums] for index in range(len(self._devices))]
