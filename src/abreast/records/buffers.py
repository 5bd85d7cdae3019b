"""Memory for batches, used again when nobody can look at a batch any more.

A batch is an array over a block of memory. Every view of it, and every framework that reads it where it is (JAX, PyTorch
and TensorFlow do on the CPU), holds that array; when the array is freed, the block is free. No ring of fixed length, in
which a batch that somebody kept would change. Imports NumPy.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections import deque

import numpy as np

from abreast.records.images import Pixels


class Buffers:
    """Blocks of one size. `keep` of them wait to be used again; threads may share it."""

    def __init__(self, block_bytes: int, keep: int) -> None:
        self._block_bytes = block_bytes
        self._free: deque[mmap.mmap] = deque(maxlen=keep)

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """An array of bytes with anything in it, at the begin of a page: JAX copies what is not at a multiple of 64."""
        try:
            block = self._free.pop()
        except IndexError:
            # Private: a forked child must not see its parent's next batches.
            block = mmap.mmap(-1, self._block_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        owner = np.frombuffer(block, np.uint8, math.prod(shape))
        # Views have `owner` as their base, so that it lives as long as the last of them.
        weakref.finalize(owner, self._free.append, block).atexit = False
        return owner.reshape(shape)

    @property
    def num_free(self) -> int:
        return len(self._free)
