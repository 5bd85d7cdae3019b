"""Messages to the next process of a ring and from the one before, sent and received at once. NumPy and sockets.

Every message begins with a number and a checksum of the exchange, so that processes notice if they do different things.
Not here: the connections of neighbours (`connections.py`), and the computation (`ring.py`).
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from abreast.errors import WorkerError

Array = np.ndarray[Any, Any]
Lost = Callable[[int, str], WorkerError]  # the error for a lost rank, given the way in which it was lost

_HEAD = struct.Struct("!QIQ")  # number of the exchange, checksum of its kind, and number of bytes after the head
_PIECE_BYTES = 1 << 18  # received at once, and added while in the cache
_SEND_BYTES = 1 << 20
_BUFFER_BYTES = 4 << 20  # of a socket, in each direction
_LOOK_SECONDS = 0.5


class Neighbours:
    """The connections from the previous rank and to the next rank.

    `look` is called twice a second while this process waits, and may raise an error.
    """

    def __init__(
        self,
        ranks: tuple[int, int],
        connections: tuple[socket.socket, socket.socket],
        silent_seconds: float,
        look: Callable[[], None],
        lost: Lost,
    ) -> None:
        self._rank_before, self._rank_after = ranks
        self._before, self._after = connections
        self._silent_seconds, self._look, self._lost = silent_seconds, look, lost
        self._piece = memoryview(bytearray(_PIECE_BYTES))
        for connection in connections:
            connection.setblocking(False)
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                connection.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        for connection in (self._before, self._after):
            with contextlib.suppress(OSError):
                connection.close()

    def pass_on(self, number: int, tag: int, own: Array, receive: Callable[[int], Incoming]) -> Array:
        """Send an array, and return the received one. `receive(num_bytes)` returns the place for the incoming bytes."""
        views = [memoryview(_HEAD.pack(number, tag, own.nbytes)), _bytes(own)]
        head, incoming = bytearray(), None
        heard = time.monotonic()
        while views or incoming is None or incoming.missing:
            moved = bool(views) and self._send(views)
            if incoming is None:
                moved |= self._receive_head(head)
                if len(head) == _HEAD.size:
                    incoming = self._begin(number, tag, head, receive)
            elif incoming.missing:
                moved |= self._receive_into(incoming)
            if moved:
                heard = time.monotonic()
            else:
                self._wait(bool(views), incoming is None or incoming.missing > 0, heard)
        return incoming.array

    def _begin(self, number: int, tag: int, head: bytearray, receive: Callable[[int], Incoming]) -> Incoming:
        their_number, their_tag, num_bytes = _HEAD.unpack(head)
        if (their_number, their_tag) != (number, tag):
            raise WorkerError(
                f"the processes do different things: rank {self._rank_before} makes another exchange than its neighbour",
                "make the same calls on the same batches in every process",
                rank=self._rank_before,
            )
        return receive(num_bytes)

    def _send(self, views: list[memoryview]) -> bool:
        try:
            sent = self._after.sendmsg([view[:_SEND_BYTES] for view in views])
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._lost(self._rank_after, f"is gone ({error.strerror})") from error
        while views and sent >= len(views[0]):
            sent -= len(views.pop(0))
        if sent:
            views[0] = views[0][sent:]
        return True

    def _receive_head(self, head: bytearray) -> bool:
        place = memoryview(bytearray(_HEAD.size - len(head)))
        got = self._receive(place)
        head += place[:got]
        return got > 0

    def _receive_into(self, incoming: Incoming) -> bool:
        got = self._receive(incoming.place(self._piece))
        incoming.arrived(got, self._piece)
        return got > 0

    def _receive(self, place: memoryview) -> int:
        """Receive bytes without waiting; returns their number, which may be 0."""
        try:
            got = self._before.recv_into(place)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(self._rank_before, f"is gone ({error.strerror})") from error
        if got == 0:
            raise self._lost(self._rank_before, "is gone")
        return got

    def _wait(self, sends: bool, receives: bool, heard: float) -> None:
        poll = select.poll()
        if sends:
            poll.register(self._after, select.POLLOUT)
        if receives:
            poll.register(self._before, select.POLLIN)
        if poll.poll(_LOOK_SECONDS * 1000):
            return
        self._look()
        if time.monotonic() - heard > self._silent_seconds:
            rank = self._rank_before if receives else self._rank_after
            raise self._lost(rank, f"has been silent for {self._silent_seconds:g} s (ABREAST_HANG_SECONDS)")


class Incoming:
    """An incoming array: its bytes replace those of `array`, or its numbers are added to it piece by piece."""

    def __init__(self, array: Array, adds: bool = False) -> None:
        self.array = array
        self.missing = array.nbytes
        self._flat, self._bytes = array.reshape(-1), _bytes(array)
        self._adds = adds
        self._in_piece = self._added = 0

    def place(self, piece: memoryview) -> memoryview:
        """The place of the next bytes."""
        if self._adds:
            size = len(piece) - len(piece) % self.array.itemsize
            return piece[self._in_piece : min(size, self._in_piece + self.missing)]
        return self._bytes[len(self._bytes) - self.missing :]

    def arrived(self, num_bytes: int, piece: memoryview) -> None:
        self.missing -= num_bytes
        if not self._adds:
            return
        self._in_piece += num_bytes
        if self._in_piece == len(piece) - len(piece) % self.array.itemsize or not self.missing:
            values = np.frombuffer(piece[: self._in_piece], np.uint8).view(self.array.dtype)
            self._flat[self._added : self._added + len(values)] += values
            self._added += len(values)
            self._in_piece = 0


def _bytes(array: Array) -> memoryview:
    whole: Any = array.reshape(-1).view(np.uint8)
    return memoryview(whole)
