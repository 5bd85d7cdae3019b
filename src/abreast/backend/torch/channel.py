"""Messages between the caller and one worker, over an inherited socket.

It carries pickles, because both ends are ours and no other process can reach it. Not here: batches (`shards.py`).
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any

_HEADER = struct.Struct("<iQ")  # kind, payload bytes


class ChannelClosed(ConnectionError):
    """The other end is closed, or `abort` was called."""


@dataclass(frozen=True)
class Message:
    """One message. The receiver owns `fd`, if there is one."""

    kind: int
    payload: bytes
    fd: int | None = None

    def object(self) -> Any:
        """The object that `Channel.send_object` sent."""
        return pickle.loads(self.payload)


class Channel:
    """Messages with a number and bytes, in order. Any thread may send or call `abort`; one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._sending = threading.Lock()

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: int, payload: bytes | bytearray | memoryview = b"", fd: int | None = None) -> None:
        header = _HEADER.pack(kind, len(payload))
        try:
            with self._sending:
                if fd is not None:
                    socket.send_fds(self._socket, [header], [fd])
                    self._socket.sendall(payload)
                elif len(payload) < 4096:
                    self._socket.sendall(header + payload)
                else:
                    self._socket.sendall(header)
                    self._socket.sendall(payload)
        except OSError as error:
            raise ChannelClosed(f"the channel is closed: {error}") from error

    def send_object(self, kind: int, value: Any) -> None:
        self.send(kind, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))

    def receive(self, seconds: float | None = None) -> Message:
        """The next message; raises `TimeoutError` if none begins within `seconds`."""
        try:
            # Not `settimeout`, which would also limit a thread that sends.
            if seconds is not None:
                self._wait(seconds)
            header, fds, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
            if not header:
                raise ChannelClosed("the other end of the channel is closed")
            kind, size = _HEADER.unpack(header + self._read(_HEADER.size - len(header)))
            return Message(kind, bytes(self._read(size)), fds[0] if fds else None)
        except (ChannelClosed, TimeoutError):
            raise
        except (OSError, ValueError) as error:  # ValueError: the descriptor of a closed socket is -1
            raise ChannelClosed(f"the channel is closed: {error}") from error

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(1000 * seconds):
            raise TimeoutError(f"no message for {seconds:g} s")

    def _read(self, size: int) -> bytearray:
        buffer = bytearray(size)
        rest = memoryview(buffer)
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise ChannelClosed("the other end of the channel closed in the middle of a message")
            rest = rest[count:]
        return buffer

    def abort(self) -> None:
        """Wake every thread that is blocked on the channel, at both ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    """The caller's end and the worker's."""
    caller, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(caller), Channel(worker)
