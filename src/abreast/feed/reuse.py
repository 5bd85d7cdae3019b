"""Notices a source that writes into arrays that it gave before: read ahead, they would change under a waiting batch.

Most such sources have one buffer. It is seen at their second batch, which is read while no other waits; from then on every
batch is copied as it comes. One with a ring of buffers may be seen only when a waiting batch has changed: that is an error.
Imports NumPy, Keras's tree and `errors`.
"""

from __future__ import annotations

import weakref
import zlib
from collections import deque
from typing import Any

import numpy as np
from keras import tree

from abreast.errors import DataError

_PROBE_BYTES = 64


class ReuseGuard:
    """Looks at the arrays of each batch read; `window` is the number of batches that may be waiting."""

    def __init__(self, window: int) -> None:
        self.copies = False
        self._seen: deque[list[_Seen]] = deque(maxlen=window)

    def guard(self, data: Any) -> Any:
        """The batch, or a copy of it; raises `DataError` when a batch that may be waiting was overwritten."""
        if self.copies:
            return tree.map_structure(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, data)
        seen = [_Seen(leaf) for leaf in tree.flatten(data) if isinstance(leaf, np.ndarray) and leaf.size]
        addresses = {mark.address for mark in seen}
        for marks in self._seen:
            for mark in marks:
                if mark.address in addresses and mark.root() is not None:
                    self._found(mark)
        if self.copies:
            self._seen.clear()
            return self.guard(data)
        self._seen.append(seen)
        return data

    def _found(self, mark: _Seen) -> None:
        array = mark.array()
        self.copies = True
        if array is not None and _probe(array) != mark.probe:
            raise DataError(
                "the data source wrote into a batch that it had given, while that still waited for its step",
                "let it give a new array each time (or a copy), or train with prefetch=0",
            )


class _Seen:
    """Where an array's memory is, while its owner lives, and what was in it."""

    __slots__ = ("address", "array", "probe", "root")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.address = array.__array_interface__["data"][0]
        self.array = weakref.ref(array)
        root: Any = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        self.root = weakref.ref(root)
        self.probe = _probe(array)


def _probe(array: np.ndarray[Any, Any]) -> int:
    """A number that changes when the first or the last bytes of an array do."""
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return 0
    memory = array.reshape(-1).view(np.uint8).data
    return zlib.crc32(memory[-_PROBE_BYTES:], zlib.crc32(memory[:_PROBE_BYTES]))
