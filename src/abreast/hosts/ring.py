"""Sums and gathers over the processes of a ring. A sum has the same bits on every rank: each part is added up in one order.

NumPy only. Not here: the messages between neighbours (`neighbours.py`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from abreast.errors import WorkerError
from abreast.hosts.neighbours import Array, Incoming, Lost, Neighbours

_SMALL_BYTES = 1 << 15  # for sums up to this size, every rank sends its whole array


def _nothing() -> None:
    pass


def _lost(rank: int, how: str) -> WorkerError:
    return WorkerError(f"rank {rank} {how}", rank=rank)


class Ring:
    """This process in a ring of `size`, with connections from the previous rank and to the next rank.

    Every rank makes the same exchanges in the same order; threads of one process take turns. Raises `WorkerError` if a
    neighbour is gone, silent for `silent_seconds`, or makes another exchange. From then on the ring is closed, so the other
    ranks notice it.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        connections: tuple[socket.socket, socket.socket],
        silent_seconds: float,
        look: Callable[[], None] = _nothing,
        lost: Lost = _lost,
    ) -> None:
        self.rank, self.size = rank, size
        self.error: BaseException | None = None  # the reason if the ring is closed
        ranks = (rank - 1) % size, (rank + 1) % size
        self._neighbours = Neighbours(ranks, connections, silent_seconds, look, lost)
        self._number = 0
        self._lock = threading.Lock()

    def sum(self, array: Array) -> Array:
        """The sum of the arrays of all ranks, which must have one shape and type."""
        return self.sum_in_place(np.array(array, order="C"))

    def sum_in_place(self, array: Array, of: str = "") -> Array:
        """The same sum; `array` is contiguous, and has no defined values afterwards. `of`: must be alike on all ranks."""
        what = f"sum {array.dtype} {array.shape} {of}"
        flat = array.reshape(-1)
        if array.nbytes < _SMALL_BYTES:
            first, *others = self._all(what, flat)
            total = first.copy()
            for other in others:
                total += other
            return total.reshape(array.shape)
        ends = [len(flat) * part // self.size for part in range(self.size + 1)]
        parts = [flat[ends[part] : ends[part + 1]] for part in range(self.size)]
        with self._exchange(what) as pass_on:
            for turn in range(self.size - 1):
                sent, got = (self.rank - turn) % self.size, (self.rank - turn - 1) % self.size
                pass_on(parts[sent], _into(parts[got], adds=True))
            for turn in range(self.size - 1):
                sent, got = (self.rank + 1 - turn) % self.size, (self.rank - turn) % self.size
                pass_on(parts[sent], _into(parts[got]))
        return array

    def rows(self, array: Array) -> Array:
        """The rows of all ranks in rank order. Their numbers of rows may differ."""
        array = np.ascontiguousarray(array)
        return np.concatenate(self._all(f"rows {array.dtype} {array.shape[1:]}", array))

    def close(self) -> None:
        self._neighbours.close()

    def _all(self, what: str, own: Array) -> list[Array]:
        """The arrays of all ranks, in rank order."""
        found = {self.rank: own}
        row_bytes = max(1, own.itemsize * int(np.prod(own.shape[1:])))

        def new(num_bytes: int) -> Incoming:
            return Incoming(np.empty((num_bytes // row_bytes, *own.shape[1:]), own.dtype))

        with self._exchange(what) as pass_on:
            for turn in range(self.size - 1):
                sent, got = (self.rank - turn) % self.size, (self.rank - turn - 1) % self.size
                found[got] = pass_on(found[sent], new)
        return [found[rank] for rank in range(self.size)]

    @contextlib.contextmanager
    def _exchange(self, what: str) -> Iterator[Callable[[Array, Callable[[int], Incoming]], Array]]:
        """A context for one exchange, with the function that passes arrays on. An error inside closes the ring."""
        with self._lock:
            if self.error is not None:
                raise self.error
            self._number += 1
            number, tag = self._number, zlib.crc32(what.encode())
            try:
                yield lambda own, receive: self._neighbours.pass_on(number, tag, own, receive)
            except BaseException as error:
                self.error = error
                self.close()
                raise


def _into(array: Array, adds: bool = False) -> Callable[[int], Incoming]:
    def receive(num_bytes: Any) -> Incoming:
        assert num_bytes == array.nbytes
        return Incoming(array, adds)

    return receive
