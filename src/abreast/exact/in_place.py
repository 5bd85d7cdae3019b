"""Arrays and tensors that Python code may change in place: their contents at one moment. Imports no framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

_MOST_BYTES = 1 << 24


class InPlace:
    """The contents of an array of NumPy or a tensor of PyTorch."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._content = _copy(array)
        self._version = _version(array)

    def has_changed(self) -> bool:
        if isinstance(self.array, np.ndarray):
            return bool(self.array.tobytes() != self._content.tobytes())
        # Without gradients, PyTorch does not count what its functions for lists of tensors (`_foreach`) write.
        return _version(self.array) != self._version or not self.array.equal(self._content)

    def put_back(self) -> None:
        if not self.has_changed():
            return
        if isinstance(self.array, np.ndarray):
            if self.array.flags.writeable:
                self.array[...] = self._content
        else:
            self.array.detach().copy_(self._content)
            self._version = _version(self.array)


def is_changeable(value: Any) -> bool:
    """Whether a value is such an array or tensor, is no weight, and is small enough to be copied."""
    if isinstance(value, np.ndarray):
        return value.nbytes <= _MOST_BYTES
    if not (hasattr(type(value), "copy_") and ops.is_tensor(value)) or value.requires_grad or value.is_meta:
        return False
    is_dense = str(value.layout) == "torch.strided" and 0 not in value.stride()  # an expanded view repeats its memory
    return is_dense and not value.is_inference() and value.nbytes <= _MOST_BYTES


def _copy(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.detach().clone()


def _version(array: Any) -> int:
    return int(getattr(array, "_version", 0))
