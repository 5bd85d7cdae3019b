"""The types of tensors that a checkpoint can hold, and how their bytes are stored in a safetensors file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abreast.errors import CheckpointError

# Types of NumPy and of `ml_dtypes`, by the name of the type in safetensors.
_SAME_BYTES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    # Types that safetensors lacks, or packs into bytes: their bytes are stored, one per element.
    "float8_e3m4": "U8",
    "float8_e4m3": "U8",
    "float8_e4m3b11fnuz": "U8",
    "float8_e4m3fnuz": "U8",
    "float8_e5m2fnuz": "U8",
    "float8_e8m0fnu": "U8",
    "float4_e2m1fn": "U8",
    "float6_e2m3fn": "U8",
    "float6_e3m2fn": "U8",
}
# Integers of less than a byte are stored as numbers of one byte, so that every tool reads the same numbers.
_SAME_NUMBERS = {"int2": ("I8", np.int8), "int4": ("I8", np.int8), "uint2": ("U8", np.uint8), "uint4": ("U8", np.uint8)}
# The number of bits of its byte that an element uses.
_BITS = {"bool": 1, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4} | {
    name: int(name[5]) for name in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
}
NAMES = frozenset({*_SAME_BYTES, *_SAME_NUMBERS})


@dataclass(frozen=True)
class StoredType:
    """A type: its name, its name in safetensors, the dtype of its elements in memory, and the dtype of the stored elements."""

    name: str
    in_safetensors: str
    in_memory: np.dtype
    stored: np.dtype


def stored_type(name: str) -> StoredType:
    """The stored form of a type. Raises `KeyError` for an unknown name."""
    in_memory = _dtype(name)
    if name in _SAME_NUMBERS:
        in_safetensors, stored = _SAME_NUMBERS[name]
        return StoredType(name, in_safetensors, in_memory, np.dtype(stored))
    return StoredType(name, _SAME_BYTES[name], in_memory, in_memory.newbyteorder("<"))


def type_of(tensor: str, array: np.ndarray) -> StoredType:
    """The stored form of an array's type. Raises `CheckpointError` if a checkpoint cannot hold that type."""
    name = array.dtype.name
    if name not in NAMES or _dtype(name) != array.dtype.newbyteorder("="):
        hint = f"cast it to one of {', '.join(sorted(NAMES))}"
        raise CheckpointError(f"cannot save the tensor {tensor!r}: a checkpoint has no type {array.dtype}", hint)
    return stored_type(name)


def check_elements(name: str, stored: np.ndarray) -> None:
    """Raise `ValueError` if a stored element has more bits than the type `name`, such as a bool that is 2."""
    if name not in _BITS or not stored.size:
        return
    if stored.dtype.kind not in "iu":
        stored = stored.view(np.uint8)
    low, high = (
        (-(2 ** (_BITS[name] - 1)), 2 ** (_BITS[name] - 1)) if stored.dtype.kind == "i" else (0, 2 ** _BITS[name])
    )
    if not low <= int(stored.min()) <= int(stored.max()) < high:
        raise ValueError(f"an element is not of type {name}")


def bytes_of(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    memory: memoryview = array.reshape(-1).view(np.uint8).data
    return memory


def _dtype(name: str) -> np.dtype:
    if name not in NAMES:
        raise KeyError(name)
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    dtype: np.dtype = np.dtype(getattr(ml_dtypes, name))
    return dtype
