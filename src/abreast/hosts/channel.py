"""Messages over a connection: their length, then their bytes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from typing import Any
from weakref import WeakSet

LIMIT = 1 << 20  # largest number of bytes of a message
_LENGTH = struct.Struct("!Q")


class Channel:
    """A connection to `rank` on `host`, which has proved that it belongs to the job; `purpose` names its use.

    One thread may send while another one receives. Code that needs raw bytes uses `socket`, and must then not call the methods.
    Every method raises `ConnectionError` if the other end is gone, and `TimeoutError` after `seconds`.
    """

    def __init__(self, connection: socket.socket, rank: int, host: str, purpose: str) -> None:
        self.socket, self.rank, self.host, self.purpose = connection, rank, host, purpose
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_from_children(connection)

    def send(self, message: bytes, seconds: float | None = None) -> None:
        self.socket.settimeout(seconds)
        self.socket.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self, seconds: float | None = None, limit: int = LIMIT) -> bytes:
        deadline = None if seconds is None else time.monotonic() + seconds
        (length,) = _LENGTH.unpack(read(self.socket, _LENGTH.size, deadline))
        if length > limit:
            raise ConnectionError(f"rank {self.rank} sends {length} bytes at once, and {limit} are allowed")
        return read(self.socket, length, deadline)

    def send_json(self, value: Any, seconds: float | None = None) -> None:
        self.send(json.dumps(value).encode(), seconds)

    def receive_json(self, seconds: float | None = None, limit: int = LIMIT) -> Any:
        try:
            return json.loads(self.receive(seconds, limit))
        except (ValueError, RecursionError) as error:
            raise ConnectionError(f"rank {self.rank} sends data that is not JSON") from error

    def has_ended(self) -> bool:
        """Whether the other end has closed, and all of its data has been read."""
        self.socket.settimeout(0)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self.socket.close()


def read(connection: socket.socket, length: int, deadline: float | None) -> bytes:
    """Exactly `length` bytes. Memory grows with the bytes that arrive, not with the announced length."""
    data = bytearray()
    while len(data) < length:
        if deadline is not None and (left := deadline - time.monotonic()) <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(None if deadline is None else left)
        part = connection.recv(min(length - len(data), 1 << 16))
        if not part:
            raise ConnectionError("the other process has closed the connection")
        data += part
    return bytes(data)


_OURS: WeakSet[socket.socket] = WeakSet()


def keep_from_children(connection: socket.socket) -> None:
    """Close a socket in forks of this process; otherwise the other end would not notice this process's death."""
    _OURS.add(connection)


def _close_all() -> None:
    for connection in list(_OURS):
        with contextlib.suppress(OSError):
            connection.close()


os.register_at_fork(after_in_child=_close_all)
