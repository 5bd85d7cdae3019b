"""Sums and gathers over processes inside a step: operations that call Python, which sends over a ring of sockets.

Every process runs them in the order in which the step was traced. Large gradients have a ring of their own: each bucket is sent
as soon as it is computed, while the backward pass goes on. XLA cannot compile such operations. Imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from abreast.errors import ModelError
from abreast.hosts.ring import Ring
from abreast.hosts.sums_beside import SumsBeside

OWN_PYTHON = "abreast_exchange"  # in the names of operations that call Python of ours
_HOST = "/CPU:0"
_BUCKET_BYTES = 4 << 20
Last = WeakKeyDictionary[Any, Any]  # by graph: the last operation of a kind


class Processes:
    """The exchanges between one process's steps and the steps of the others."""

    def __init__(self, ring: Ring, beside: SumsBeside) -> None:
        self._ring = ring
        self._beside = beside
        self._last, self._last_begun = Last(), Last()  # the last exchange, and the last bucket that was begun

    def sum(self, tensors: Sequence[Any]) -> list[Any]:
        """The sums of tensors over all processes, in one message for each type."""
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        places = range(len(tensors))
        dtypes = dict.fromkeys(tensor.dtype for tensor in tensors)
        groups = [[place for place in places if tensors[place].dtype == dtype] for dtype in dtypes]
        return _parted([self._call(self._ring.sum, _flat(tensors, group)) for group in groups], tensors, groups)

    def sum_gradients(self, gradients: Sequence[Any]) -> list[Any]:
        """The sums of gradients over all processes, in buckets from the last gradient on: the backward pass computes it first."""
        buckets = _buckets(gradients)
        if len(buckets) < 2:
            return self.sum(gradients)
        numbers = [self._begin(_flat(gradients, bucket)) for bucket in buckets]
        # The ends wait in a thread of TensorFlow, so they come after everything that another process may wait for.
        with tf.control_dependencies(numbers):
            totals = [
                self._call(self._beside.end, number, gradients[bucket[0]].dtype)
                for bucket, number in zip(buckets, numbers, strict=True)
            ]
        return _parted(totals, gradients, buckets)

    def rows(self, tensor: Any) -> Any:
        """The rows of all processes in rank order; their numbers of rows may differ."""
        if tensor.dtype == tf.string:
            raise ModelError(
                "text cannot be gathered from several processes",
                "return numbers, such as the index of a class, or predict in one process",
            )
        gathered = self._call(self._ring.rows, tensor)
        gathered.set_shape([None, *tensor.shape[1:]])
        return gathered

    def in_order(self, branching: Callable[[], Any]) -> Any:
        """The result of a function that builds a `tf.cond` with exchanges in its branches; earlier exchanges run before them."""
        with _after(self._last):
            result = branching()
        for last in (self._last, self._last_begun):
            _note(last, tf.nest.flatten(result)[0])
        return result

    def _begin(self, flat: Any) -> Any:
        with tf.device(_HOST), _after(self._last_begun):
            number = tf.numpy_function(self._beside.begin, [flat], tf.int64, name=OWN_PYTHON)
        if not tf.executing_eagerly() and (order := number.graph.experimental_acd_manager) is not None:
            order.run_independently(number.op)  # else it would wait for the exchanges that were traced before it
        _note(self._last_begun, number)
        return number

    def _call(self, function: Callable[[Any], Any], tensor: Any, dtype: Any = None) -> Any:
        # TensorFlow orders these operations itself, except beside a `tf.cond` that has such operations in its branches.
        with tf.device(_HOST), _after(self._last):
            found = tf.numpy_function(function, [tensor], dtype or tensor.dtype, name=OWN_PYTHON)
        _note(self._last, found)
        return found


def _buckets(gradients: Sequence[Any]) -> list[list[int]]:
    """The places of the gradients in buckets of one type, from the last gradient to the first."""
    found: list[list[int]] = []
    num_bytes = 0
    for place in reversed(range(len(gradients))):
        dtype = gradients[place].dtype
        if not found or num_bytes >= _BUCKET_BYTES or gradients[found[-1][0]].dtype != dtype:
            found.append([])
            num_bytes = 0
        found[-1].append(place)
        num_bytes += dtype.size * (gradients[place].shape.num_elements() or 0)
    return found


def _flat(tensors: Sequence[Any], group: Sequence[int]) -> Any:
    """The numbers of the tensors at the places of a group, one tensor after the other."""
    with tf.device(_HOST):
        return tf.concat([tf.reshape(tensors[place], [-1]) for place in group], axis=0)


def _parted(totals: Sequence[Any], tensors: Sequence[Any], groups: Sequence[Sequence[int]]) -> list[Any]:
    """The sums of `tensors`, in their shapes and order; each total has those of a group, joined as by `_flat`."""
    found: dict[int, Any] = {}
    for total, group in zip(totals, groups, strict=True):
        with tf.device(_HOST):
            total.set_shape([None])
            parts = tf.split(total, tf.stack([tf.size(tensors[place]) for place in group]), num=len(group))
            found |= {
                place: tf.reshape(part, tf.shape(tensors[place])) for place, part in zip(group, parts, strict=True)
            }
    for place, tensor in enumerate(tensors):
        found[place].set_shape(tensor.shape)
    return [found[place] for place in range(len(tensors))]


def _after(last: Last) -> Any:
    """A context in which operations run after the last one of a kind."""
    found = None if tf.executing_eagerly() else last.get(tf.compat.v1.get_default_graph())
    return tf.control_dependencies([] if found is None else [found])


def _note(last: Last, result: Any) -> None:
    if not tf.executing_eagerly():
        last[tf.compat.v1.get_default_graph()] = result.op


@dataclass(frozen=True)
class Reach:
    """The replicas of this process: those from number `first` on, out of `total`. Without `processes`, it has all."""

    first: int
    total: int
    processes: Processes | None = None

    def rows(self, tensor: Any) -> Any:
        """The rows of all processes, in their order."""
        return tensor if self.processes is None else self.processes.rows(tensor)

    def sum(self, tensors: Sequence[Any]) -> list[Any]:
        """The sums over all processes."""
        return list(tensors) if self.processes is None else self.processes.sum(tensors)

    def in_order(self, branching: Callable[[], Any]) -> Any:
        """See `Processes.in_order`."""
        return branching() if self.processes is None else self.processes.in_order(branching)
