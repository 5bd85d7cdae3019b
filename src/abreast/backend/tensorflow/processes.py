"""Sums and gathers over processes inside a step: operations that call Python, which sends over a ring of sockets.

Every process runs them in the order in which the step was traced. XLA cannot compile such operations. Imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from abreast.errors import ModelError
from abreast.hosts.ring import Ring

_HOST = "/CPU:0"


class Processes:
    """The exchanges between one process's steps and the steps of the others."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._last: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by graph: the operation of the last exchange

    def sum(self, tensors: Sequence[Any]) -> list[Any]:
        """The sums of tensors over all processes, in one message for each type."""
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        totals: dict[int, Any] = {}
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            places = [place for place, tensor in enumerate(tensors) if tensor.dtype == dtype]
            alike = [tensors[place] for place in places]
            totals.update(zip(places, self._sum_of_one_type(alike), strict=True))
        return [totals[place] for place in range(len(tensors))]

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
        with self._after_the_last():
            result = branching()
        self._note(tf.nest.flatten(result)[0])
        return result

    def _sum_of_one_type(self, tensors: list[Any]) -> list[Any]:
        with tf.device(_HOST):
            flat = tensors[0] if len(tensors) == 1 else tf.concat([tf.reshape(each, [-1]) for each in tensors], axis=0)
            total = self._call(self._ring.sum, flat)
            total.set_shape(flat.shape)
            if len(tensors) == 1:
                return [total]
            parts = tf.split(total, tf.stack([tf.size(each) for each in tensors]), num=len(tensors))
            sums = [tf.reshape(part, tf.shape(each)) for part, each in zip(parts, tensors, strict=True)]
        for each, tensor in zip(sums, tensors, strict=True):
            each.set_shape(tensor.shape)
        return sums

    def _call(self, function: Callable[[Any], Any], tensor: Any) -> Any:
        with tf.device(_HOST), self._after_the_last():
            found = tf.numpy_function(function, [tensor], tensor.dtype)
        self._note(found)
        return found

    def _after_the_last(self) -> Any:
        # TensorFlow orders these operations itself, except beside a `tf.cond` that has such operations in its branches.
        last = None if tf.executing_eagerly() else self._last.get(tf.compat.v1.get_default_graph())
        return tf.control_dependencies([] if last is None else [last])

    def _note(self, result: Any) -> None:
        if not tf.executing_eagerly():
            self._last[tf.compat.v1.get_default_graph()] = result.op


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
