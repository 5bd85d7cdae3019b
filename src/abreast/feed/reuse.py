"""Detection of sources that write into arrays of earlier batches: with reading ahead, a waiting batch would change.

Most such sources have one buffer. That shows at their second batch, which is read while no other batch waits. From then on every
batch is copied after it is read. A ring of buffers may show only when a waiting batch has changed: that is an error.
The backend defines the memory of a leaf (`Leaves`).
"""

from __future__ import annotations

import weakref
import zlib
from collections import deque
from typing import Any

import numpy as np
from keras import tree

from abreast.arrays import arrays_of
from abreast.errors import DataError
from abreast.staging import NUMPY_LEAVES, Leaves

Array = np.ndarray[Any, Any]
_PROBE_BYTES = 64


class ReuseGuard:
    """Examines the arrays of each batch that is read; `window` is the number of batches that may wait."""

    def __init__(self, window: int, leaves: Leaves = NUMPY_LEAVES) -> None:
        self.copies = False
        self._leaves = leaves
        self._seen: deque[_Seen] = deque()
        self._window = window
        self._num_read = 0

    def begin(self) -> None:
        """Begin with another iterator of the same source; `copies` stays as it is."""
        self._seen.clear()
        self._num_read = 0

    def guard(self, data: Any, num_finished: int) -> Any:
        """The batch, or a copy of it; raises `DataError` if a batch after the first `num_finished` was overwritten."""
        index, self._num_read = self._num_read, self._num_read + 1
        while self._seen and self._seen[0].index < index - self._window:
            self._seen.popleft()
        for mark in self._seen:
            if mark.index < num_finished:
                mark.kept = None
        if any(mark.has_changed() for mark in self._seen):
            raise DataError(
                "the data source wrote into an earlier batch, while that still waited for its step",
                "let the source return a new array (or a copy) each time, or train with prefetch=0",
            )
        arrays = [
            (leaf, array) for leaf in arrays_of(data) if (array := self._leaves.memory(leaf)) is not None and array.size
        ]
        addresses = {_address(array) for _, array in arrays}
        self.copies = self.copies or any(mark.address in addresses and mark.root() is not None for mark in self._seen)
        if self.copies:
            return self.copy(data)
        self._seen.extend(_Seen(index, leaf, array) for leaf, array in arrays)
        return data

    def copy(self, data: Any) -> Any:
        """The batch in arrays of its own."""
        return tree.map_structure(self._copy, data)

    def _copy(self, leaf: Any) -> Any:
        return leaf if self._leaves.memory(leaf) is None else self._leaves.copy(leaf)


class _Seen:
    """The address of an array's memory, its owner and a checksum of its contents."""

    __slots__ = ("address", "index", "kept", "probe", "root")

    def __init__(self, index: int, leaf: Any, array: Array) -> None:
        self.index = index
        self.address = _address(array)
        # Kept until its step has finished: a CPU device may read this memory directly.
        self.kept: tuple[Any, Array] | None = leaf, array
        root = leaf
        while isinstance(getattr(root, "base", None), np.ndarray):
            root = root.base
        self.root = weakref.ref(root)
        self.probe = _probe(array)

    def has_changed(self) -> bool:
        return self.kept is not None and _probe(self.kept[1]) != self.probe


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _probe(array: Array) -> int:
    """A checksum of the first and last bytes of an array."""
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return 0
    memory = array.reshape(-1).view(np.uint8).data
    return zlib.crc32(memory[-_PROBE_BYTES:], zlib.crc32(memory[:_PROBE_BYTES]))
