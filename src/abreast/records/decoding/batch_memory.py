"""Memory for batches, which is reused as soon as nothing refers to a batch any more.

A batch is an array over a block of memory. Every view of it holds that array, and so does every framework that reads it
without a copy (JAX, PyTorch and TensorFlow do so on the CPU). When the array is freed, its block is free. A ring of fixed
length would be simpler, but a batch that a user keeps would change.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
import weakref
from collections import deque

import numpy as np

from abreast.records.decoding.images import Pixels


class Arena:
    """Blocks that other processes can map. They are parts of one file without a name, which ends with its last user."""

    def __init__(self, block_bytes: int) -> None:
        self.descriptor = os.memfd_create("abreast-batches")
        weakref.finalize(self, os.close, self.descriptor).atexit = False
        self._block_bytes = -(-block_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._file_bytes = 0
        self._free: list[int] = []
        self._offsets: dict[int, int] = {}  # by address
        self._lock = threading.Lock()

    def block(self) -> mmap.mmap:
        offset = self._offset()
        block = self._mapped(offset)
        address = np.frombuffer(block, np.uint8, 1).ctypes.data
        self._offsets[address] = offset
        weakref.finalize(block, self._end, address, offset).atexit = False
        return block

    def offset_of(self, array: Pixels) -> int:
        """The offset in the file of an array that starts at the beginning of a block."""
        return self._offsets[array.ctypes.data]

    def _offset(self) -> int:
        with self._lock:
            if not self._free:
                self._free.append(self._file_bytes)
                self._file_bytes += self._block_bytes
                os.ftruncate(self.descriptor, self._file_bytes)
            return self._free.pop()

    def _mapped(self, offset: int) -> mmap.mmap:
        return mmap.mmap(self.descriptor, self._block_bytes, offset=offset)

    def _end(self, address: int, offset: int) -> None:
        if self._offsets.get(address) == offset:  # another block may have this address already
            del self._offsets[address]
        with self._mapped(offset) as block:
            block.madvise(mmap.MADV_REMOVE)  # frees the memory, which other mappings would keep
        self._free.append(offset)


class BatchMemory:
    """Blocks of one size. At most `keep` free blocks are kept for later batches. Threads may share it."""

    def __init__(self, block_bytes: int, keep: int, arena: Arena | None = None) -> None:
        self._block_bytes = block_bytes
        self._free: deque[mmap.mmap] = deque(maxlen=keep)
        self._arena = arena

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """An uninitialized array of bytes at the beginning of a page: JAX copies an array whose address is not 64-aligned."""
        try:
            block = self._free.pop()
        except IndexError:
            block = self._new_block() if self._arena is None else self._arena.block()
        owner = np.frombuffer(block, np.uint8, math.prod(shape))
        # Each view has `owner` as its base, so that `owner` lives as long as the last view.
        weakref.finalize(owner, self._free.append, block).atexit = False
        return owner.reshape(shape)

    def _new_block(self) -> mmap.mmap:
        # Private: a forked child must not see its parent's next batches.
        return mmap.mmap(-1, self._block_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
