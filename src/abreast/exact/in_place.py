"""Arrays, tensors and buffers that Python code may change in place: their contents at one moment. Imports no framework."""

from __future__ import annotations

import array
import io
import sys
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from keras import ops

_MOST_BYTES = 1 << 24
BUFFERS = (bytearray, array.array, io.StringIO, io.BytesIO)


class Buffered(NamedTuple):
    """The contents of a buffer; of one that stands for a file, its state with the place at which it is read and written."""

    contents: Any


def size_of_buffer(buffer: Any) -> int:
    """Bytes, or the characters up to the present place in a text."""
    if isinstance(buffer, io.StringIO):
        return 0 if buffer.closed else io.StringIO.tell(buffer)
    return sys.getsizeof(buffer)


def buffered(buffer: Any) -> Buffered | None:
    """None for a buffer that is closed. A class of the user may have methods of its own, which are not called."""
    if isinstance(buffer, bytearray | array.array):
        return Buffered(bytes(memoryview(buffer).cast("B")))
    if buffer.closed:
        return None
    kind: Any = io.StringIO if isinstance(buffer, io.StringIO) else io.BytesIO
    return Buffered(kind.__getstate__(buffer)[:-1])  # without attributes


def refill_buffer(buffer: Any, before: Buffered | None) -> None:
    """Give a buffer its contents again. One whose memory other objects use keeps its length."""
    if before is None or before == buffered(buffer):
        return
    with suppress(BufferError):
        if isinstance(buffer, bytearray):
            bytearray.__setitem__(buffer, slice(None), before.contents)
        elif isinstance(buffer, array.array):
            array.array.__delitem__(buffer, slice(None))
            array.array.frombytes(buffer, before.contents)
        elif not buffer.closed:
            kind: Any = io.StringIO if isinstance(buffer, io.StringIO) else io.BytesIO
            kind.__setstate__(buffer, (*before.contents, None))


class InPlace:
    """The contents of an array of NumPy, a tensor of PyTorch or a buffer of Python."""

    def __init__(self, value: Any) -> None:
        self.array = value
        self._content = _copy(value)
        self._version = _version(value)

    def has_changed(self) -> bool:
        if isinstance(self.array, BUFFERS):
            return bool(buffered(self.array) != self._content)
        if isinstance(self.array, np.ndarray):
            return bool(self.array.tobytes() != self._content.tobytes())
        # Without gradients, PyTorch does not count what its functions for lists of tensors (`_foreach`) write.
        return _version(self.array) != self._version or not self.array.equal(self._content)

    def put_back(self) -> None:
        if not self.has_changed():
            return
        if isinstance(self.array, BUFFERS):
            refill_buffer(self.array, self._content)
        elif isinstance(self.array, np.ndarray):
            if self.array.flags.writeable:
                self.array[...] = self._content
        else:
            self.array.detach().copy_(self._content)
            self._version = _version(self.array)


def is_changeable(value: Any) -> bool:
    """Whether a value is such an array, tensor or buffer, is no weight, and is small enough to be copied."""
    if isinstance(value, BUFFERS):
        return not getattr(value, "closed", False) and size_of_buffer(value) <= _MOST_BYTES
    if isinstance(value, np.ndarray):
        return value.nbytes <= _MOST_BYTES
    if not (hasattr(type(value), "copy_") and ops.is_tensor(value)) or value.requires_grad or value.is_meta:
        return False
    is_dense = str(value.layout) == "torch.strided" and 0 not in value.stride()  # an expanded view repeats its memory
    return is_dense and not value.is_inference() and value.nbytes <= _MOST_BYTES


def _copy(value: Any) -> Any:
    if isinstance(value, BUFFERS):
        return buffered(value)
    return value.copy() if isinstance(value, np.ndarray) else value.detach().clone()


def _version(value: Any) -> int:
    return int(getattr(value, "_version", 0))
