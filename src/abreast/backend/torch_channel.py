"""What passes between the caller and one worker: messages over an inherited socket, batches through shared memory.

`Channel` carries small messages; pickles travel on it because both ends are ours and nobody else can reach it.
`ShardWriter` copies a shard into memory that both processes map (memfd: no name, gone with its last user, also after
kill -9), `ShardReader` gives it back as views. A shard's structure, dtypes and shapes are sent once and then named by a
number. Linux only. Imports NumPy and `errors`, no framework.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import DataError

_HEADER = struct.Struct("<iQ")  # kind, payload bytes
_DESCRIPTOR = struct.Struct("<QII")  # sequence number of the shard, its slot, number of its layout
DESCRIPTOR_BYTES = _DESCRIPTOR.size
_COUNTER, _SLOT, _LAYOUT = 100, 101, 102  # message kinds from 100 on are the batch memory's
_ALIGN = 64
_MAX_LAYOUTS = 1024


class ChannelClosed(ConnectionError):
    """The other end is gone, or `abort` was called."""


@dataclass(frozen=True)
class Message:
    """`fd`, when there is one, belongs to who receives it."""

    kind: int
    payload: bytes
    fd: int | None = None

    def object(self) -> Any:
        """The payload of `Channel.send_object`."""
        return pickle.loads(self.payload)


class Channel:
    """Messages of a number and bytes, in order. One thread sends and one receives; `abort` may come from any."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: int, payload: bytes | bytearray | memoryview = b"", fd: int | None = None) -> None:
        header = _HEADER.pack(kind, len(payload))
        try:
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
        """The next message; `TimeoutError` when none begins within `seconds`."""
        try:
            # Not `settimeout`: that would also hold for a thread that sends.
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
        """End what is blocked on the channel, here and at the other end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    """The caller's end and the worker's."""
    caller, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(caller), Channel(worker)


class ShardWriter:
    """The caller's side of the batch memory of one worker: a ring of slots, each grown when a larger shard comes."""

    def __init__(self, channel: Channel, num_slots: int = 3) -> None:
        self._channel = channel
        self._slots: list[mmap.mmap | None] = [None] * num_slots
        self._views: list[dict[int, list[NDArray[Any]]]] = [{} for _ in range(num_slots)]
        self._layouts: dict[Any, tuple[int, _Layout]] = {}
        self._next_layout = 0
        self._sequence = 0
        self._released = np.frombuffer(self._share(_COUNTER, 0, mmap.PAGESIZE), np.int64, 1)

    def write(self, tree: Any, seconds: float | None = None) -> bytes:
        """Copy a tree of arrays into a free slot and describe it; `TimeoutError` when none comes free in `seconds`."""
        leaves: list[NDArray[Any]] = []
        structure = _flatten(tree, leaves)
        number, layout = self._layout(structure, leaves)
        index = self._sequence % len(self._slots)
        self._wait_for_slot(seconds)
        for view, leaf in zip(self._slot_views(index, number, layout), leaves, strict=True):
            np.copyto(view, leaf)
        descriptor = _DESCRIPTOR.pack(self._sequence, index, number)
        self._sequence += 1
        return descriptor

    @property
    def pending(self) -> int:
        """Shards that the worker has not released."""
        return self._sequence - int(self._released[0])

    def close(self) -> None:
        """Forget the memory; it goes when its last view does."""
        self._slots, self._views, self._layouts = [], [], {}
        self._released = np.zeros(1, np.int64)

    def _wait_for_slot(self, seconds: float | None) -> None:
        if self.pending < len(self._slots):
            return
        deadline = None if seconds is None else time.monotonic() + seconds
        pause_seconds = 20e-6
        while self.pending >= len(self._slots):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"no slot of the batch memory came free for {seconds:g} s")
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, 1e-3)

    def _layout(self, structure: Any, leaves: list[NDArray[Any]]) -> tuple[int, _Layout]:
        key = (structure, tuple((leaf.dtype, leaf.shape) for leaf in leaves))
        known = self._layouts.get(key)
        if known is not None:
            return known
        reset = len(self._layouts) >= _MAX_LAYOUTS
        if reset:
            self._layouts.clear()
            self._views = [{} for _ in self._slots]
        number, self._next_layout = self._next_layout, self._next_layout + 1
        layout = _Layout(structure, [(_dtype_name(leaf.dtype), leaf.shape) for leaf in leaves])
        self._layouts[key] = number, layout
        self._channel.send_object(_LAYOUT, (number, layout.structure, layout.leaves, reset))
        return number, layout

    def _slot_views(self, index: int, number: int, layout: _Layout) -> list[NDArray[Any]]:
        slot = self._slots[index]
        if slot is None or len(slot) < layout.num_bytes:
            size_bytes = max(2 * len(slot) if slot else 0, layout.num_bytes, mmap.PAGESIZE)
            slot = self._slots[index] = self._share(_SLOT, index, size_bytes)
            self._views[index] = {}
        views = self._views[index].get(number)
        if views is None:
            views = self._views[index][number] = layout.views(slot)
        return views

    def _share(self, kind: int, index: int, size_bytes: int) -> mmap.mmap:
        fd = os.memfd_create("abreast", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size_bytes)
            self._channel.send(kind, struct.pack("<QQ", index, size_bytes), fd)
            return mmap.mmap(fd, size_bytes)
        finally:
            os.close(fd)


class ShardReader:
    """The worker's side of the batch memory."""

    def __init__(self) -> None:
        self._slots: dict[int, mmap.mmap] = {}
        self._layouts: dict[int, _Layout] = {}
        self._views: dict[int, dict[int, list[NDArray[Any]]]] = {}
        self._released = np.zeros(1, np.int64)

    def accept(self, message: Message) -> bool:
        """Whether the message was for the batch memory, and now is dealt with."""
        if message.kind not in (_COUNTER, _SLOT, _LAYOUT):
            return False
        if message.kind == _LAYOUT:
            number, structure, leaves, reset = message.object()
            if reset:
                self._layouts.clear()
                self._views = {index: {} for index in self._slots}
            self._layouts[number] = _Layout(structure, leaves)
            return True
        memory, index = _map(message)
        if message.kind == _COUNTER:
            self._released = np.frombuffer(memory, np.int64, 1)
        else:
            self._slots[index], self._views[index] = memory, {}
        return True

    def read(self, descriptor: bytes) -> Any:
        """The shard as a tree of views; they hold until `release`."""
        _, index, number = _DESCRIPTOR.unpack_from(descriptor)
        layout = self._layouts[number]
        views = self._views[index].get(number)
        if views is None:
            views = self._views[index][number] = layout.views(self._slots[index])
        return _unflatten(layout.structure, iter(views))

    def release(self, descriptor: bytes) -> None:
        """Give the slot back; in the order of the shards."""
        # One aligned store of eight bytes: the other process sees the old value or the new one.
        self._released[0] = _DESCRIPTOR.unpack_from(descriptor)[0] + 1

    def close(self) -> None:
        self._slots, self._views, self._layouts = {}, {}, {}
        self._released = np.zeros(1, np.int64)


class _Layout:
    """Where the arrays of a tree lie in a slot."""

    def __init__(self, structure: Any, leaves: list[tuple[str, tuple[int, ...]]]) -> None:
        self.structure = structure
        self.leaves = leaves
        self._places: list[tuple[int, int]] = []
        offset = 0
        for name, shape in leaves:
            size_bytes = _dtype(name).itemsize * int(np.prod(shape, dtype=np.int64))
            self._places.append((offset, size_bytes))
            offset += -(-size_bytes // _ALIGN) * _ALIGN
        self.num_bytes = offset

    def views(self, slot: mmap.mmap) -> list[NDArray[Any]]:
        memory = np.frombuffer(slot, np.uint8)
        return [
            memory[offset : offset + size_bytes].view(_dtype(name)).reshape(shape)
            for (name, shape), (offset, size_bytes) in zip(self.leaves, self._places, strict=True)
        ]


def _map(message: Message) -> tuple[mmap.mmap, int]:
    assert message.fd is not None
    index, size_bytes = struct.unpack("<QQ", message.payload)
    try:
        return mmap.mmap(message.fd, size_bytes), index
    finally:
        os.close(message.fd)


def _flatten(tree: Any, leaves: list[NDArray[Any]]) -> Any:
    """Append the tree's arrays to `leaves`; give its structure: hashable, with None where nothing was and 0 per array."""
    if type(tree) is np.ndarray and tree.dtype.isnative and tree.dtype.kind != "O":
        leaves.append(_checked(tree))
        return 0
    if tree is None:
        return None
    if isinstance(tree, dict):
        return (dict, tuple((key, _flatten(value, leaves)) for key, value in tree.items()))
    if isinstance(tree, tuple | list):
        kind = type(tree) if hasattr(tree, "_fields") else list if isinstance(tree, list) else tuple
        return (kind, tuple([_flatten(value, leaves) for value in tree]))
    array = np.asarray(tree)
    leaves.append(_checked(array.astype(array.dtype.newbyteorder("="), copy=False)))
    return 0


def _unflatten(structure: Any, leaves: Any) -> Any:
    if structure is None:
        return None
    if structure == 0:
        return next(leaves)
    kind, parts = structure
    if kind is dict:
        return {key: _unflatten(part, leaves) for key, part in parts}
    values = [_unflatten(part, leaves) for part in parts]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "OSUT" or array.dtype.names is not None:
        raise DataError(
            f"a batch holds an array of {array.dtype} with shape {array.shape}, which PyTorch cannot compute with",
            "turn text into numbers before the model, with keras.layers.StringLookup or TextVectorization in the data",
        )
    return array


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.kind == "V" else dtype.str  # bfloat16 and the like call themselves `V2`


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # registers its names; only there when the caller's arrays have them

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
