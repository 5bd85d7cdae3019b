"""Columns: what a sample carries beside its image, of any NumPy type, with a fixed or a varying shape.

Here are types, how they are found and written down, and how values become bytes and come back. Where the bytes lie is
in `format`. Imports `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

TEXT, BYTES = "text", "bytes"
NUMBERS = ("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_MAX_AXES = 8

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ColumnType:
    """`type` is one of `NUMBERS`, "text" or "bytes"; `shape` is of one sample, with None for an axis that varies."""

    name: str
    type: str
    shape: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            hint = "letters, digits and _, no digit first, 32 at most"
            raise DataError(f"a column cannot be called {self.name!r}", hint)
        if self.type in (TEXT, BYTES):
            good = self.shape == (None,)
        else:
            sizes = [size for size in self.shape if size is not None]
            good = self.type in NUMBERS and len(self.shape) <= _MAX_AXES and all(0 <= size < 2**31 for size in sizes)
        if not good:
            hint = f"types are {', '.join(NUMBERS)}, text and bytes; up to {_MAX_AXES} axes"
            raise DataError(f"column {self.name!r} cannot have type {self.type!r} and shape {self.shape}", hint)

    @property
    def element(self) -> np.dtype[Any]:
        """The type of one number; text and bytes are bytes."""
        return np.dtype("u1" if self.type in (TEXT, BYTES) else self.type)

    @property
    def varies(self) -> bool:
        return None in self.shape

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "shape": list(self.shape)}

    @staticmethod
    def from_json(data: Any) -> ColumnType:
        """Raises `DataError` for what `to_json` does not give."""
        match data:
            case {"name": str(name), "type": str(kind), "shape": list(shape), **rest} if not rest:
                if all(size is None or type(size) is int for size in shape):
                    return ColumnType(name, kind, tuple(shape))
        raise DataError(f"this describes no column: {data!r:.200}")


def type_of(name: str, value: Any) -> ColumnType:
    """The type for values like this one: a number is a number, and an array may have any sizes in its axes."""
    if isinstance(value, str):
        return ColumnType(name, TEXT, (None,))
    if isinstance(value, bytes):
        return ColumnType(name, BYTES, (None,))
    array = _array(name, value)
    return ColumnType(name, _little_endian(array.dtype), (None,) * array.ndim)


def types_of(values: Mapping[str, Any]) -> tuple[ColumnType, ...]:
    return tuple(type_of(name, value) for name, value in values.items())


def column_name(text: str) -> str:
    """A name that a column may have, near to `text`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:32] or "_"
    return f"_{name[:31]}" if name[0].isdigit() else name


def column_names(texts: Iterable[str]) -> list[str]:
    """Such names, each another one."""
    names: list[str] = []
    for text in texts:
        name = column_name(text)
        while name in names:
            name += "_"
        names.append(name)
    return names


def agreed(samples: Iterable[Mapping[str, Any]]) -> tuple[ColumnType, ...]:
    """Types that hold the values of these samples: decimal numbers where some are whole and others are not.

    Values that no column can hold are left to where their sample is packed.
    """
    found: dict[str, ColumnType] = {}
    for sample in samples:
        for name, value in sample.items():
            try:
                column = type_of(name, value)
            except DataError:
                continue
            found[name] = _common(found.get(name, column), column)
    return tuple(found.values())


def _common(one: ColumnType, other: ColumnType) -> ColumnType:
    if {TEXT, BYTES} & {one.type, other.type} or len(one.shape) != len(other.shape):
        return one
    dtype = np.promote_types(one.element, other.element)
    return ColumnType(one.name, _little_endian(dtype), one.shape)


def fitted(column: ColumnType, value: Any) -> Array:
    """The value as an array of the column's type. Raises `DataError` when it does not fit without a loss."""
    if column.type in (TEXT, BYTES):
        kind = str if column.type == TEXT else bytes
        if not isinstance(value, kind):
            raise DataError(f"column {column.name!r} holds {column.type}, and got {type(value).__name__}")
        return np.frombuffer(_utf8(column.name, value) if isinstance(value, str) else value, np.uint8)
    array = _array(column.name, value)
    if array.dtype.kind not in "biuf" or not _same_values(array, column.element):
        raise DataError(f"column {column.name!r} has type {column.type}, and got {value!r:.80}")
    if not _fits(array.shape, column.shape):
        raise DataError(f"column {column.name!r} has shape {column.shape}, and got {array.shape}")
    return array.astype(column.element, order="C")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"column {name!r} cannot hold {text!r:.80}: it is no UTF-8") from None


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        raise DataError(f"column {name!r} cannot hold {value!r:.80}", "lists must have equal lengths") from None


def _same_values(array: Array, element: np.dtype[Any]) -> bool:
    if np.can_cast(array.dtype, element, "safe"):
        return True
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(element)
    if array.dtype.kind == "f" and element.kind == "f":  # a narrower column asks for fewer digits, and not for infinity
        return bool(np.array_equal(np.isinf(cast), np.isinf(array)))
    return bool(np.array_equal(cast, array))


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(want in (None, have) for have, want in zip(shape, wanted, strict=True))


def _little_endian(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str


@dataclass(frozen=True)
class StoredColumn:
    """The values of one shard: all numbers in a row, and the shape of each where shapes vary."""

    type: ColumnType
    numbers: Array
    shapes: npt.NDArray[np.uint32] | None  # samples by axes

    @staticmethod
    def of(column: ColumnType, values: Sequence[Array]) -> StoredColumn:
        """Of values that are `fitted`."""
        flat = [value.ravel() for value in values]
        numbers = np.concatenate(flat) if flat else np.empty(0, column.element)
        shapes = [value.shape for value in values]
        table = np.array(shapes, "<u4").reshape(len(values), len(column.shape)) if column.varies else None
        return StoredColumn(column, numbers, table)

    def check(self, num_samples: int) -> None:
        """Raise `ValueError` unless numbers and shapes go together."""
        if self.shapes is not None:
            if self.shapes.shape != (num_samples, len(self.type.shape)):
                raise ValueError("there is not one shape per sample")
            fixed = [(axis, size) for axis, size in enumerate(self.type.shape) if size is not None]
            if any((self.shapes[:, axis] != size).any() for axis, size in fixed):
                raise ValueError("a shape is not that of the column")
            # Python's integers: a product of eight sizes may not fit 64 bits
            total = sum(_product(shape) for shape in self.shapes.tolist())
        else:
            total = num_samples * _product([size for size in self.type.shape if size is not None])
        if total != len(self.numbers):
            raise ValueError(f"there are {len(self.numbers)} numbers for shapes of {total}")

    def value(self, index: int) -> Any:
        """The value of one sample: a NumPy number, an array that must not be written to, text, or bytes."""
        if self.shapes is None:
            shape = [size for size in self.type.shape if size is not None]
            size = _product(shape)
            array = self.numbers[index * size : (index + 1) * size].reshape(shape)
            return array if shape else array[()]
        part = self.numbers[self._ends[index] : self._ends[index + 1]]
        if self.type.type == TEXT:
            return part.tobytes().decode()
        if self.type.type == BYTES:
            return part.tobytes()
        return part.reshape(self.shapes[index])

    def values(self, num_samples: int) -> Array | None:
        """All values, samples first; None for text and bytes, and where shapes differ."""
        shape: Sequence[Any] = self.type.shape
        if self.type.type in (TEXT, BYTES):
            return None
        if self.shapes is not None:
            if not num_samples or (self.shapes != self.shapes[0]).any():
                return None
            shape = self.shapes[0].tolist()
        return self.numbers.reshape(num_samples, *shape)

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        assert self.shapes is not None
        sizes = self.shapes.astype(np.int64).prod(axis=1)
        return np.concatenate([[0], np.cumsum(sizes)])


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
