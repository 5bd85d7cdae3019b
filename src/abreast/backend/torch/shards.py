"""Batches for one worker, in shared memory. A memfd has no name and ends with its last user, also after kill -9.

`SharedMemoryWriter` copies a shard into a slot that both processes map; `SharedMemoryReader` returns it as views. A shard's
structure, dtypes and shapes are sent once and then named by a number. Linux only. Imports no framework.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.backend.torch.channel import Channel, ChannelClosed, Message
from abreast.errors import DataError

_DESCRIPTOR = struct.Struct("<QII")  # sequence number of the shard, its slot, number of its layout
DESCRIPTOR_BYTES = _DESCRIPTOR.size
_RELEASED, _SLOT, _LAYOUT = 100, 101, 102  # message kinds from 100 on are the batch memory's
_ALIGN = 64
_MAX_LAYOUTS = 1024
_MAX_SLOTS = mmap.PAGESIZE // 8


class SharedMemoryWriter:
    """The caller's side of one worker's batch memory, with as many slots as shards have been pending at once."""

    def __init__(self, channel: Channel, max_pending: int = 3) -> None:
        self.max_pending = min(max_pending, _MAX_SLOTS)
        self._channel = channel
        self._slots: list[mmap.mmap | None] = []
        self._views: list[dict[int, list[NDArray[Any]]]] = []
        self._busy: dict[int, int] = {}  # slot -> number of the shard in it
        self._layouts: dict[Any, tuple[int, _Layout]] = {}
        self._next_layout = 0
        self._sequence = 0
        # For each slot, the number of the shard that was last released from it, plus 1.
        self._released = np.frombuffer(self._share(_RELEASED, 0, mmap.PAGESIZE), np.int64)

    def has_room(self) -> bool:
        """Whether fewer than `max_pending` shards are pending."""
        return self.pending < self.max_pending

    def write(self, tree: Any) -> bytes:
        """Copy a tree of arrays into a free slot; return its descriptor. The caller checks `has_room` before."""
        leaves: list[NDArray[Any]] = []
        structure = _flatten(tree, leaves)
        number, layout = self._layout(structure, leaves)
        index = self._free_slot()
        for view, leaf in zip(self._slot_views(index, number, layout), leaves, strict=True):
            np.copyto(view, leaf)
        descriptor = _DESCRIPTOR.pack(self._sequence, index, number)
        self._busy[index] = self._sequence
        self._sequence += 1
        return descriptor

    def forget(self, descriptor: bytes) -> None:
        """Take back a shard whose descriptor has not been sent to the worker."""
        sequence, index, _ = _DESCRIPTOR.unpack_from(descriptor)
        self._released[index] = sequence + 1

    @property
    def pending(self) -> int:
        """Number of shards that have not been released."""
        self._busy = {index: sequence for index, sequence in self._busy.items() if self._released[index] <= sequence}
        return len(self._busy)

    def close(self) -> None:
        """Drop the memory; it is freed with its last view."""
        self._slots, self._views, self._layouts, self._busy = [], [], {}, {}
        self._released = np.zeros(_MAX_SLOTS, np.int64)

    def _free_slot(self) -> int:
        if self.pending == _MAX_SLOTS:
            raise ChannelClosed("the worker takes no more shards")
        index = next(index for index in range(_MAX_SLOTS) if index not in self._busy)
        if index == len(self._slots):
            self._slots.append(None)
            self._views.append({})
        return index

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


class SharedMemoryReader:
    """The worker's side of the batch memory. `on_slot` is called with a slot's new memory and its previous memory."""

    def __init__(self, on_slot: Callable[[Any, Any], None] | None = None) -> None:
        self._on_slot = on_slot
        self._slots: dict[int, mmap.mmap] = {}
        self._layouts: dict[int, _Layout] = {}
        self._old_layouts: dict[int, _Layout] = {}  # from before the last reset: pending shards may still use them
        self._views: dict[int, dict[int, list[NDArray[Any]]]] = {}
        self._released = np.zeros(_MAX_SLOTS, np.int64)

    def accept(self, message: Message) -> bool:
        """Handle a message for the batch memory; False if the message is for other code."""
        if message.kind not in (_RELEASED, _SLOT, _LAYOUT):
            return False
        if message.kind == _LAYOUT:
            number, structure, leaves, reset = message.object()
            if reset:
                self._old_layouts, self._layouts = self._layouts, {}
                self._views = {index: {} for index in self._slots}
            self._layouts[number] = _Layout(structure, leaves)
            return True
        memory, index = _map(message)
        if message.kind == _RELEASED:
            self._released = np.frombuffer(memory, np.int64)
        else:
            if self._on_slot is not None:
                self._on_slot(memory, self._slots.get(index))
            self._slots[index], self._views[index] = memory, {}
        return True

    def read(self, descriptor: bytes) -> Any:
        """The shard as a tree of views, which are valid until `release`."""
        _, index, number = _DESCRIPTOR.unpack_from(descriptor)
        layout = self._layouts.get(number) or self._old_layouts[number]
        views = self._views[index].get(number)
        if views is None:
            views = self._views[index][number] = layout.views(self._slots[index])
        return _unflatten(layout.structure, iter(views))

    def release(self, descriptor: bytes) -> None:
        """Return the slot to the writer."""
        sequence, index, _ = _DESCRIPTOR.unpack_from(descriptor)
        # One aligned store of eight bytes: the other process sees the old value or the new one.
        self._released[index] = sequence + 1

    def close(self) -> None:
        self._slots, self._views, self._layouts, self._old_layouts = {}, {}, {}, {}
        self._released = np.zeros(_MAX_SLOTS, np.int64)


class _Layout:
    """The places of a tree's arrays in a slot."""

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
    """Append the tree's arrays to `leaves`; return its structure, which is hashable and has 0 for an array, None for None."""
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
            "turn text into numbers in the data source, with keras.layers.StringLookup or TextVectorization",
        )
    return array


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.kind == "V" else dtype.str  # bfloat16 and similar types have the `str` "V2"


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # adds its types to NumPy; installed if the caller's arrays have such a type

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
