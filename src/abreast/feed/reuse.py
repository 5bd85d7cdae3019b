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
        self._seen: deque[_Seen] = deque()
        self._window = window
        self._num_read = 0

    def begin(self) -> None:
        """Another iterator of the same source begins; what it learnt of the source stays."""
        self._seen.clear()
        self._num_read = 0

    def guard(self, data: Any, num_finished: int) -> Any:
        """The batch, or a copy of it; raises `DataError` when one after the first `num_finished` was overwritten."""
        index, self._num_read = self._num_read, self._num_read + 1
        while self._seen and self._seen[0].index < index - self._window:
            self._seen.popleft()
        for mark in self._seen:
            if mark.index < num_finished:
                mark.leaf = None
        if any(mark.has_changed() for mark in self._seen):
            raise DataError(
                "the data source wrote into a batch that it had given, while that still waited for its step",
                "let it give a new array each time (or a copy), or train with prefetch=0",
            )
        leaves = [leaf for leaf in tree.flatten(data) if (view := _view(leaf)) is not None and view.size]
        addresses = {_address(leaf) for leaf in leaves}
        self.copies = self.copies or any(mark.address in addresses and mark.root() is not None for mark in self._seen)
        if self.copies:
            return tree.map_structure(_copy, data)
        self._seen.extend(_Seen(index, leaf) for leaf in leaves)
        return data


class _Seen:
    """Where an array's memory is, while its owner lives, and what was in it."""

    __slots__ = ("address", "index", "leaf", "probe", "root")

    def __init__(self, index: int, leaf: Any) -> None:
        self.index = index
        self.address = _address(leaf)
        self.leaf: Any = leaf  # until its step is over: a device of the CPU may read it where it is
        root = leaf
        while isinstance(getattr(root, "base", None), np.ndarray):
            root = root.base
        self.root = weakref.ref(root)
        self.probe = _probe(leaf)

    def has_changed(self) -> bool:
        return self.leaf is not None and _probe(self.leaf) != self.probe


def _view(leaf: Any) -> np.ndarray[Any, Any] | None:
    """The memory of an array, or of a tensor of PyTorch on the CPU; None for what cannot be written into."""
    if isinstance(leaf, np.ndarray):
        return leaf
    if not hasattr(leaf, "data_ptr") or leaf.device.type != "cpu":
        return None
    try:
        view: np.ndarray[Any, Any] = leaf.detach().numpy()
        return view
    except (TypeError, RuntimeError):  # a type that NumPy does not know
        return None


def _copy(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return leaf if _view(leaf) is None else leaf.clone()


def _address(leaf: Any) -> int:
    view = _view(leaf)
    assert view is not None
    address: int = view.__array_interface__["data"][0]
    return address


def _probe(leaf: Any) -> int:
    """A number that changes when the first or the last bytes of an array do."""
    array = _view(leaf)
    assert array is not None
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return 0
    memory = array.reshape(-1).view(np.uint8).data
    return zlib.crc32(memory[-_PROBE_BYTES:], zlib.crc32(memory[:_PROBE_BYTES]))
