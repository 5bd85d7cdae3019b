"""Replicas of one TensorFlow step that take turns in one Python process, and the exchanges between them.

Each replica runs in a thread of its own, one at a time, until it needs values from the others. When all have arrived, the
caller's thread combines their values, and the replicas continue. Inside a `tf.function` this builds one graph over several
devices. Not here: the contents of a step (`step.py`).
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record

from abreast import contexts
from abreast.backend.tensorflow.functions import inlined
from abreast.backend.tensorflow.processes import Reach
from abreast.backend.tensorflow.slices import ALL_ROWS
from abreast.backend.tensorflow.summaries import Summaries
from abreast.errors import ModelError
from abreast.keras_private import global_state
from abreast.keras_private.folder import FOLDER
from abreast.stderr import tell_once
from abreast.threads import line_of, processor_seconds

Combine = Callable[[list[Any]], list[Any]]

_STILL_SECONDS = 60.0  # without use of a processor, after which a replica is said to stand still


class _Stopped(BaseException):
    """Ends a replica's thread after another replica has failed."""


class Turns:
    """The replicas of one step. `enter(index)` is called before each turn of a replica, `enter(None)` before the caller's.

    `thread_locals`: objects of the user whose attributes the threads of replicas take over from the caller's.
    """

    def __init__(
        self,
        devices: Sequence[str],
        enter: Callable[[int | None], None],
        summaries: Summaries,
        reach: Reach,
        thread_locals: Sequence[Any] = (),
    ) -> None:
        self.devices = devices
        self.thread_locals = thread_locals
        self.reach = reach
        self.summaries = summaries
        self.befores: dict[Any, Any] = {}  # see `exact.ReplicaLink`
        self._enter = enter
        self._threads: list[_ReplicaThread] = []
        self._back = threading.Semaphore(0)
        self._stopping = False
        self._graph = _graph()

    def run(self, function: Callable[[int], Any]) -> list[Any]:
        """The results of `function(index)`, called for every replica under its device."""
        if len(self.devices) == 1:
            return [self._run_single(function)]
        self._threads = [_ReplicaThread(self, index, function) for index in range(len(self.devices))]
        for thread in self._threads:
            thread.start()
        try:
            while not self._finished():
                self._combine()
        finally:
            self._stop()
            self._enter(None)
        self._threads[0].thread_values.put_back()
        contexts.take_over(self._threads[0].context)
        return [thread.result for thread in self._threads]

    def meet(self, value: Any, combine: Combine) -> Any:
        """Wait until every replica has brought a value; return this replica's item of `combine(values)`."""
        if self.reach.total == 1:
            return combine([value])[0]
        thread = threading.current_thread()
        is_replica = isinstance(thread, _ReplicaThread) or len(self.devices) == 1
        if not is_replica or self._graph is not _graph():
            raise ModelError(
                "the replicas need to exchange values inside a tf.cond or tf.while_loop of the model",
                "keep losses, metrics, BatchNormalization and optimizer steps out of them",
            )
        if not isinstance(thread, _ReplicaThread):
            return combine([value])[0]
        thread.value, thread.combine = value, combine
        thread.give_turn()
        return thread.value

    def _run_single(self, function: Callable[[int], Any]) -> Any:
        self._enter(0)
        try:
            with self.summaries.of_rank(self.reach.first), tf.device(self.devices[0]):
                return function(0)
        finally:
            self._enter(None)

    def _finished(self) -> bool:
        """Let every replica run until it meets the others or ends."""
        for thread in self._threads:
            self._enter(thread.index)
            thread.turn.release()
            self._wait_for(thread)
            self._enter(None)
            if thread.error is not None:
                raise thread.error
        ended = [thread.ended for thread in self._threads]
        if any(ended) and not all(ended):
            raise _different_paths()
        return all(ended)

    def _wait_for(self, thread: _ReplicaThread) -> None:
        """Wait until a replica gives its turn back; say where it stands still, which may be for ever."""
        seconds = None
        while not self._back.acquire(timeout=_STILL_SECONDS):
            before, seconds = seconds, processor_seconds(thread)
            if seconds is not None and seconds == before:
                tell_once(_stands_still(thread))

    def _combine(self) -> None:
        if not all(_exchange_alike(self._threads[0], thread) for thread in self._threads[1:]):
            raise _different_paths()
        combine = self._threads[0].combine
        assert combine is not None
        results = combine([thread.value for thread in self._threads])
        for thread, result in zip(self._threads, results, strict=True):
            thread.value = result

    def _stop(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.turn.release()
        for thread in self._threads:
            thread.join()


class _ReplicaThread(threading.Thread):
    def __init__(self, turns: Turns, index: int, function: Callable[[int], Any]) -> None:
        super().__init__(name=f"abreast-replica-{index}", daemon=True)
        self.index = index
        self.graph = _graph()
        self.turn = threading.Semaphore(0)
        self.ended = False
        self.error: BaseException | None = None
        self.value: Any = None
        self.combine: Combine | None = None
        self.result: Any = None
        self._turns = turns
        self._function = function
        self.context = contextvars.copy_context()
        self._keras_state = dict(global_state.GLOBAL_STATE_TRACKER.__dict__)
        self.thread_values = _ThreadValues(turns.thread_locals)

    def run(self) -> None:
        self.turn.acquire()
        try:
            if not self._turns._stopping:
                self.thread_values.put_back()
                self.context.run(self._call)
                self.thread_values.read()
        except _Stopped:
            pass
        except BaseException as error:  # raised again in the caller's thread
            self.error = error
        finally:
            self.ended = True
            self._turns._back.release()

    def give_turn(self) -> None:
        self._turns._back.release()
        self.turn.acquire()
        if self._turns._stopping:
            raise _Stopped

    def _call(self) -> None:
        global_state.GLOBAL_STATE_TRACKER.__dict__.update(self._keras_state)
        self._turns.summaries.take_over(self._turns.reach.first + self.index)
        devices = self._turns.devices
        with inlined(self._turns.reach.total), _in_graph(self.graph), tf.device(devices[self.index]):
            self.result = self._function(self.index)


class _ThreadValues:
    """The attributes that some objects have in the present thread, for another thread."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self._objects = objects
        self.read()

    def read(self) -> None:
        self._values = [dict(vars(each)) for each in self._objects]

    def put_back(self) -> None:
        for each, values in zip(self._objects, self._values, strict=True):
            vars(each).clear()
            vars(each).update(values)


def _exchange_alike(one: _ReplicaThread, other: _ReplicaThread) -> bool:
    """Whether two replicas bring values of the same kind to the same exchange, as far as is known while a step is traced."""
    if _code(one.combine) is not _code(other.combine):
        return False
    a, b = one.value, other.value
    if not (tf.is_tensor(a) and tf.is_tensor(b)):
        return True
    if a.dtype != b.dtype:
        return False
    if None in (a.shape.rank, b.shape.rank):
        return True
    return bool(a.shape.rank == b.shape.rank and a.shape[1:].is_compatible_with(b.shape[1:]))


def _code(combine: Any) -> Any:
    """The code of an exchange, which is the same for all replicas; each has a function object of its own."""
    while isinstance(combine, functools.partial):
        combine = combine.func
    return getattr(combine, "__func__", combine).__code__


def _stands_still(thread: _ReplicaThread) -> str:
    return (
        f"a replica has waited for {_STILL_SECONDS:g} s at {line_of(thread, FOLDER)}. If it waits for a lock, "
        "another replica holds it: hold none while a layer, such as BatchNormalization, exchanges values between replicas"
    )


def _different_paths() -> ModelError:
    return ModelError(
        "the replicas of a step took different paths through the model's Python code",
        "that code must not depend on the values of a batch, on its number of rows, nor on Python objects that the step changes",
    )


def _graph() -> Any:
    """The graph under construction; None where operations run at once."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


@contextmanager
def _in_graph(graph: Any) -> Iterator[None]:
    if graph is None:
        yield
    else:
        with graph.as_default():
            yield


class TurnLink:
    """`exact.ReplicaLink` over turns: each sum is made on one device and read by all.

    `own_index` counts the replicas of this process.
    """

    def __init__(self, turns: Turns, own_index: int, reduce: Callable[[list[Any]], list[Any]]) -> None:
        self.index = turns.reach.first + own_index
        self.num_replicas = turns.reach.total
        self.befores = turns.befores if tf.executing_eagerly() else None
        self._turns = turns
        self._reduce = reduce

    def all_sum(self, tensor: Any) -> Any:
        return _with_gradient(tensor, self._sum, self._sum)

    def all_stack(self, tensor: Any) -> Any:
        return _with_gradient(tensor, self._stack, lambda gradient: self._sum(gradient)[self.index])

    def gather_rows(self, tensor: Any, counts: Any) -> Any:
        def own_rows(gradient: Any) -> Any:
            return self._own_rows(gradient * tf.cast(self.num_replicas, gradient.dtype), tensor, counts)

        return _with_gradient(tensor, lambda value: self._rows_of_all(value, counts), own_rows)

    def of_all_rows(self) -> AbstractContextManager[Any]:
        return tf.name_scope(ALL_ROWS)  # type: ignore[no-any-return]

    def join_rows(self, tensor: Any, counts: Any) -> Any:
        def own_rows(gradient: Any) -> Any:
            return self._own_rows(self._sum(gradient), tensor, counts)

        return _with_gradient(tensor, lambda value: self._rows_of_all(value, counts), own_rows)

    def _rows_of_all(self, tensor: Any, counts: Any) -> Any:
        def joined(values: list[Any]) -> list[Any]:
            heads = [value[: counts[index]] for index, value in enumerate(values, start=self._turns.reach.first)]
            return [self._turns.reach.rows(tf.concat(heads, axis=0))] * len(values)

        return self._turns.meet(tensor, joined)

    def _own_rows(self, gradient: Any, tensor: Any, counts: Any) -> Any:
        """The rows of a gradient that belong to this replica's `tensor`; a stand-in row gets zeros."""
        first = tf.reduce_sum(counts[: self.index])
        missing = tf.shape(tensor)[0] - counts[self.index]
        return tf.pad(gradient[first : first + counts[self.index]], [[0, missing]] + [[0, 0]] * (len(tensor.shape) - 1))

    def _sum(self, tensor: Any) -> Any:
        return self._turns.meet(tensor, self._reduce)

    def _stack(self, tensor: Any) -> Any:
        return self._turns.meet(tensor, lambda values: [self._turns.reach.rows(tf.stack(values))] * len(values))


def _with_gradient(tensor: Any, forward: Callable[[Any], Any], backward: Callable[[Any], Any]) -> Any:
    """`forward(tensor)` with `backward` as its gradient; the operations of the exchange are on no replica's tape."""
    tensor = tf.convert_to_tensor(tensor)
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return forward(tensor)

    # `tf.custom_gradient` would search the other replicas' part of the graph for variables at every exchange.
    with record.stop_recording():
        result = tf.identity(forward(tensor))
    record.record_operation("AbreastMeeting", [result], [tensor], lambda gradient: [backward(gradient)])
    return result
