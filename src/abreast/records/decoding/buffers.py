"""Memory for batches, used again when nobody can look at a batch any more.

A batch is an array over a block of memory. Every view of it, and every framework that reads it where it is (JAX, PyTorch
and TensorFlow do on the CPU), holds that array; when the array is freed, the block is free. No ring of fixed length, in
which a batch that somebody kept would change. Imports NumPy.
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
    """Blocks that other processes can map: parts of one file that has no name, and ends with the last who has it open."""

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
        address = _address(block)
        self._offsets[address] = offset
        weakref.finalize(block, self._end, address, offset).atexit = False
        return block

    def offset_of(self, array: Pixels) -> int:
        """Where in the file an array begins that is the begin of a block."""
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
        if self._offsets.get(address) == offset:  # the address may be that of the next block already
            del self._offsets[address]
        with self._mapped(offset) as block:
            block.madvise(mmap.MADV_REMOVE)  # gives the memory back; other mappings of it would keep it
        self._free.append(offset)


class Buffers:
    """Blocks of one size. `keep` of them wait to be used again; threads may share it."""

    def __init__(self, block_bytes: int, keep: int, arena: Arena | None = None) -> None:
        self._block_bytes = block_bytes
        self._free: deque[mmap.mmap] = deque(maxlen=keep)
        self._arena = arena

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """An array of bytes with anything in it, at the begin of a page: JAX copies what is not at a multiple of 64."""
        try:
            block = self._free.pop()
        except IndexError:
            block = self._new_block() if self._arena is None else self._arena.block()
        owner = np.frombuffer(block, np.uint8, math.prod(shape))
        # Views have `owner` as their base, so that it lives as long as the last of them.
        weakref.finalize(owner, self._free.append, block).atexit = False
        return owner.reshape(shape)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def _new_block(self) -> mmap.mmap:
        # Private: a forked child must not see its parent's next batches.
        return mmap.mmap(-1, self._block_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _address(block: mmap.mmap) -> int:
    address: int = np.frombuffer(block, np.uint8, 1).ctypes.data
    return address
