"""A reader of `.npy` files that does not trust their header.

NumPy's own reader evaluates the header as a Python literal, and allocates memory for the shape in it. Here the three
entries are found by patterns. Source: NumPy's documentation, `numpy.lib.format`.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {b"\1\0": 2, b"\2\0": 4}  # by version
_MAX_HEADER_BYTES = 10_000
_DTYPE = re.compile(rb"'descr'\s*:\s*'([<>|=]?[?biuf][0-9]{0,2})'")
_ORDER = re.compile(rb"'fortran_order'\s*:\s*(True|False)")
_SHAPE = re.compile(rb"'shape'\s*:\s*\(([0-9, ]*)\)")


def read_npy(data: bytes) -> npt.NDArray[Any]:
    """An array of numbers. No memory is allocated for a shape that the data do not have. Raises `DataError`."""
    try:
        dtype, order, shape, begin = _header(data)
        size = math.prod(shape)
        if size * dtype.itemsize != len(data) - begin:
            raise ValueError(f"{len(data) - begin} bytes follow a header of {dtype} and {shape}")
        numbers = np.frombuffer(data, dtype, offset=begin) if size else np.empty(0, dtype)
        return numbers.reshape(shape, order="F" if order == b"True" else "C")
    except (ValueError, TypeError) as error:
        raise DataError(f"this is not an array of numbers in NumPy's format: {error!s:.200}") from None


def _header(data: bytes) -> tuple[np.dtype[Any], bytes, tuple[int, ...], int]:
    """Type, order, shape, and the offset of the numbers."""
    begin = len(_MAGIC) + 2 + _LENGTH_BYTES.get(data[6:8], 0)
    size = int.from_bytes(data[len(_MAGIC) + 2 : begin], "little")
    text = data[begin : begin + size]
    if data[:6] != _MAGIC or data[6:8] not in _LENGTH_BYTES or not 0 < len(text) == size <= _MAX_HEADER_BYTES:
        raise ValueError("its header is damaged, or of another version")
    found = [pattern.search(text) for pattern in (_DTYPE, _ORDER, _SHAPE)]
    if None in found:
        raise ValueError(f"its header says {text!r:.80}")
    dtype, order, shape = (match[1] for match in found if match is not None)
    sizes = tuple(int(each) for each in shape.replace(b" ", b"").split(b",") if each)
    return np.dtype(dtype.decode()), order, sizes, begin + size
