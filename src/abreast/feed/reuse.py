"""Detection of sources that write into arrays of earlier batches: with reading ahead, a waiting batch would change.

Most such sources have one buffer. That shows at their second batch, which is read while no other batch waits. From then on every
batch is copied after it is read. A ring of buffers may show only when a waiting batch has changed: that is an error.
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
    """Examines the arrays of each batch that is read; `window` is the number of batches that may wait."""

    def __init__(self, window: int) -> None:
        self.copies = False
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
                mark.leaf = None
        if any(mark.has_changed() for mark in self._seen):
            raise DataError(
                "the data source wrote into an earlier batch, while that still waited for its step",
                "let the source return a new array (or a copy) each time, or train with prefetch=0",
            )
        leaves = [leaf for leaf in tree.flatten(data) if (view := _view(leaf)) is not None and view.size]
        addresses = {_address(leaf) for leaf in leaves}
        self.copies = self.copies or any(mark.address in addresses and mark.root() is not None for mark in self._seen)
        if self.copies:
            return tree.map_structure(_copy, data)
        self._seen.extend(_Seen(index, leaf) for leaf in leaves)
        return data


class _Seen:
    """The address of an array's memory, its owner and a checksum of its contents."""

    __slots__ = ("address", "index", "leaf", "probe", "root")

    def __init__(self, index: int, leaf: Any) -> None:
        self.index = index
        self.address = _address(leaf)
        self.leaf: Any = leaf  # kept until its step has finished: a CPU device may read this memory directly
        root = leaf
        while isinstance(getattr(root, "base", None), np.ndarray):
            root = root.base
        self.root = weakref.ref(root)
        self.probe = _probe(leaf)

    def has_changed(self) -> bool:
        return self.leaf is not None and _probe(self.leaf) != self.probe


def _view(leaf: Any) -> np.ndarray[Any, Any] | None:
    """The memory of an array, or of a PyTorch tensor on the CPU; None for other leaves, which a source cannot overwrite."""
    if isinstance(leaf, np.ndarray):
        return leaf
    if not hasattr(leaf, "data_ptr") or leaf.device.type != "cpu":
        return None
    try:
        view: np.ndarray[Any, Any] = leaf.detach().numpy()
        return view
    except (TypeError, RuntimeError):  # a dtype that NumPy does not have
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
    """A checksum of the first and last bytes of an array."""
    array = _view(leaf)
    assert array is not None
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return 0
    memory = array.reshape(-1).view(np.uint8).data
    return zlib.crc32(memory[-_PROBE_BYTES:], zlib.crc32(memory[:_PROBE_BYTES]))
