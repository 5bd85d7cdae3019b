"""A file of NumPy's format as an array, without trusting what it says of itself.

Imports `errors`.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

_MAX_HEADER_BYTES = 10_000


def read_npy(data: bytes) -> npt.NDArray[Any]:
    """Numbers only, no pickle; nothing is allocated by what the header claims. Raises `DataError`."""
    try:
        shape, fortran, dtype, begin = _header(data)
        size = math.prod(shape)
        if dtype.kind not in "biuf" or size * dtype.itemsize != len(data) - begin:
            raise ValueError(f"{len(data) - begin} bytes behind a header of {dtype} and {shape}")
        numbers = np.frombuffer(data, dtype, offset=begin) if size else np.empty(0, dtype)
        return numbers.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # NumPy's own parser raises anything over damaged headers
        raise DataError(f"this is no array of numbers in NumPy's format: {error!s:.200}") from None


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the format")
    shape, fortran, dtype = readers[version](file, max_header_size=_MAX_HEADER_BYTES)
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape}")
    return shape, fortran, dtype, file.tell()
