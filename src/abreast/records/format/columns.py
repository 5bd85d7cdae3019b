"""Columns: the values that a sample has besides its image, of any type of numbers, with a fixed or a varying shape.

Here: the types of columns, their detection in values, their form as JSON, and the conversion of values to bytes and back. Not
here: the places of the bytes in a file (`index_file`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
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
    """`type` is one of `NUMBERS`, "text" or "bytes". `shape` is one sample's, with None for an axis that varies."""

    name: str
    type: str
    shape: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            hint = "use at most 32 letters, digits and _, and no digit first"
            raise DataError(f"a column cannot have the name {self.name!r}", hint)
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
        """The NumPy type of one stored element; text and bytes are stored as bytes."""
        return np.dtype("u1" if self.type in (TEXT, BYTES) else self.type)

    @property
    def words(self) -> str:
        """The type as a person reads it: `int64`, `float32`, `text`."""
        return self.type if self.type in (TEXT, BYTES) else self.element.name

    @property
    def varies(self) -> bool:
        return None in self.shape

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "shape": list(self.shape)}

    @staticmethod
    def from_json(data: Any) -> ColumnType:
        """The column of a result of `to_json`. Raises `DataError` for anything else."""
        match data:
            case {"name": str(name), "type": str(kind), "shape": list(shape), **rest} if not rest:
                if all(size is None or type(size) is int for size in shape):
                    return ColumnType(name, kind, tuple(shape))
        raise DataError(f"this is not the description of a column: {data!r:.200}")


def type_of(name: str, value: Any) -> ColumnType:
    """The type of a column for values like this one. A number has no axes; all axes of an array may vary."""
    if isinstance(value, str):
        return ColumnType(name, TEXT, (None,))
    if isinstance(value, bytes):
        return ColumnType(name, BYTES, (None,))
    array = _array(name, value)
    return ColumnType(name, _little_endian(array.dtype), (None,) * array.ndim)


def types_of(values: Mapping[str, Any]) -> tuple[ColumnType, ...]:
    return tuple(type_of(name, value) for name, value in values.items())


def column_name(text: str) -> str:
    """A valid name of a column, similar to `text`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:32] or "_"
    return f"_{name[:31]}" if name[0].isdigit() else name


def column_names(texts: Iterable[str]) -> list[str]:
    """A different valid name for each text."""
    names: list[str] = []
    for text in texts:
        names.append(free_name(text, names))
    return names


def free_name(text: str, taken: Container[str]) -> str:
    """A valid name of a column, similar to `text`, that is not taken."""
    name = column_name(text)
    while name in taken:
        name += "_"
    return name


def agreed(samples: Iterable[Mapping[str, Any]]) -> tuple[ColumnType, ...]:
    """Types that hold the values of all these samples: floating point if only some values are whole numbers.

    A value that no column can hold is skipped here. It raises its error when its sample is packed.
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
    """The value as an array of the column's type. Raises `DataError` when it cannot be stored without loss."""
    if column.type in (TEXT, BYTES):
        kind = str if column.type == TEXT else bytes
        if not isinstance(value, kind):
            raise DataError(f"column {column.name!r} holds {column.type}, not {type(value).__name__}")
        return np.frombuffer(_utf8(column.name, value) if isinstance(value, str) else value, np.uint8)
    array = _array(column.name, value)
    if array.dtype.kind not in "biuf" or not _same_values(array, column.element):
        raise DataError(f"column {column.name!r} of type {column.words} cannot hold {value!r:.80}")
    if not _fits(array.shape, column.shape):
        raise DataError(f"column {column.name!r} of shape {column.shape} cannot hold an array of shape {array.shape}")
    return array.astype(column.element, order="C")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"column {name!r} cannot hold {text!r:.80}: it is not valid UTF-8") from None


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        raise DataError(f"column {name!r} cannot hold {value!r:.80}", "give nested lists of equal lengths") from None


def _same_values(array: Array, element: np.dtype[Any]) -> bool:
    if np.can_cast(array.dtype, element, "safe"):
        return True
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(element)
    # A narrower type of floating point may drop digits, and may not turn a finite number into infinity.
    if array.dtype.kind == "f" and element.kind == "f":
        return bool(np.array_equal(np.isinf(cast), np.isinf(array)))
    return bool(np.array_equal(cast, array))


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(want in (None, have) for have, want in zip(shape, wanted, strict=True))


def _little_endian(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str


@dataclass(frozen=True)
class StoredColumn:
    """The values of a column in one shard: all numbers one after another, and each value's shape if shapes vary."""

    type: ColumnType
    numbers: Array
    shapes: npt.NDArray[np.uint32] | None  # samples by axes

    @staticmethod
    def of(column: ColumnType, values: Sequence[Array]) -> StoredColumn:
        """Stores values that `fitted` returned."""
        flat = [value.ravel() for value in values]
        numbers = np.concatenate(flat) if flat else np.empty(0, column.element)
        shapes = [value.shape for value in values]
        table = np.array(shapes, "<u4").reshape(len(values), len(column.shape)) if column.varies else None
        return StoredColumn(column, numbers, table)

    def check(self, num_samples: int) -> None:
        """Raise `ValueError` unless the shapes describe exactly the numbers."""
        if self.shapes is not None:
            if self.shapes.shape != (num_samples, len(self.type.shape)):
                raise ValueError("the number of shapes is not the number of samples")
            fixed = [(axis, size) for axis, size in enumerate(self.type.shape) if size is not None]
            if any((self.shapes[:, axis] != size).any() for axis, size in fixed):
                raise ValueError("a shape does not fit its column's")
            # Python's integers, because a product of eight sizes may not fit into 64 bits.
            total = sum(map(math.prod, self.shapes.tolist()))
        else:
            total = num_samples * math.prod(size for size in self.type.shape if size is not None)
        if total != len(self.numbers):
            raise ValueError(f"there are {len(self.numbers)} numbers, and the shapes need {total}")

    def value(self, index: int) -> Any:
        """The value of one sample: a NumPy number, a read-only array, text, or bytes."""
        if self.shapes is None:
            shape = [size for size in self.type.shape if size is not None]
            size = math.prod(shape)
            array = self.numbers[index * size : (index + 1) * size].reshape(shape)
            return array if shape else array[()]
        part = self.numbers[self._ends[index] : self._ends[index + 1]]
        if self.type.type == TEXT:
            return part.tobytes().decode()
        if self.type.type == BYTES:
            return part.tobytes()
        return part.reshape(self.shapes[index])

    def values(self, num_samples: int) -> Array | None:
        """All values, with samples as the first axis; None for text, for bytes, and if shapes differ."""
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
