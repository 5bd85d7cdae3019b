"""Sums over a ring in a thread: the caller begins one, computes on, and later waits for it. NumPy only."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np

from abreast.hosts.neighbours import Array
from abreast.hosts.ring import Ring

_Sum = tuple[int, Array, Future[Array]]  # the number of its step, what to add up, and the result


class SumsBeside:
    """Sums over `ring`, which nothing else may use. Every rank begins the same sums in the same order.

    `step()` is the number of the present step, alike on all ranks. If a step fails, ranks may have begun different sums of it;
    the ring notices a sum of another step.
    """

    def __init__(self, ring: Ring, step: Callable[[], int]) -> None:
        self._ring = ring
        self._step, self._last_step = step, 0
        self._numbers = itertools.count()
        self._sums: dict[int, Future[Array]] = {}
        self._todo: SimpleQueue[_Sum | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, array: Array) -> np.int64:
        """Begin the sum of the arrays of all ranks, and return its number. The array may be changed after this."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(self._ring, self._todo), name="abreast-sums", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._todo.put, None)  # the thread ends with this
        if (step := self._step()) != self._last_step:
            self._last_step = step
            self._sums.clear()  # of a step that failed
        number, found = next(self._numbers), Future[Array]()
        self._sums[number] = found
        self._todo.put((step, np.array(array, order="C"), found))
        return np.int64(number)

    def end(self, number: np.int64) -> Array:
        """Wait for a sum. Raises the error of its exchange, such as `WorkerError`."""
        return self._sums.pop(int(number)).result()


def _run(ring: Ring, todo: SimpleQueue[_Sum | None]) -> None:
    while (asked := todo.get()) is not None:
        step, array, found = asked
        try:
            found.set_result(ring.sum_in_place(array, f"of step {step}"))
        except BaseException as error:  # raised again by `end`
            found.set_exception(error)
        del asked, array, found  # else they would stay until the next sum
