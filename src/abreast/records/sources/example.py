"""A parser of `tf.train.Example`, which consists of a few messages of protocol buffers, without TensorFlow.

Each length is checked against the remaining bytes, and counts are limited, so that a damaged or hostile record is refused
before anything large is allocated. Sources: tensorflow/core/example/{example,feature}.proto, and "Encoding" on protobuf.dev.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_FEATURES = 1024
_MAX_FIELDS = 1 << 16  # of one list: values of bytes, or runs of numbers
_MAX_NUMBERS = 1 << 20
_KINDS = {1: "bytes", 2: "float", 3: "int64"}


@dataclass(frozen=True)
class Feature:
    """`kind` is "bytes", "float" or "int64", or None for an empty feature. Values are bytes, float32 or int64."""

    kind: str | None
    values: list[bytes] | npt.NDArray[Any]


def read_example(data: bytes) -> dict[str, Feature]:
    """The features by name. Raises `DataError`, which names the byte where the data are not a valid Example."""
    view = memoryview(data)
    features: dict[str, Feature] = {}
    total = 0
    for number, wire, begin, end in _fields(view, 0, len(view)):
        _expect(number == 1 and wire == _BYTES, begin, f"a field {number}, which an Example does not have")
        for inner, inner_wire, entry_begin, entry_end in _fields(view, begin, end):
            _expect(inner == 1 and inner_wire == _BYTES, entry_begin, f"a field {inner} among the features")
            name, feature = _entry(view, entry_begin, entry_end)
            features[name] = feature
            total += len(feature.values)
            _expect(total <= _MAX_NUMBERS, entry_begin, f"the end of the {_MAX_NUMBERS} values that are allowed")
            _expect(len(features) <= _MAX_FEATURES, entry_begin, f"more than {_MAX_FEATURES} features")
    return features


def _expect(good: bool, place: int, otherwise: str) -> None:
    if not good:
        raise DataError(f"this is not a valid tf.train.Example: at byte {place} there is {otherwise}")


def _fields(view: memoryview, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, and begin and end of the value, of each field between two places."""
    place = begin
    while place < end:
        tag, value = _varint(view, place, end)
        number, wire = tag >> 3, tag & 7
        if wire == _BYTES:
            size, value = _varint(view, value, end)
        elif wire == _VARINT:
            size = _varint(view, value, end)[1] - value
        else:
            _expect(wire in (_FOUR_BYTES, _EIGHT_BYTES), place, f"a wire type {wire}")
            size = 4 if wire == _FOUR_BYTES else 8
        _expect(size <= end - value, place, f"a field of {size} bytes, and {end - value} are left")
        _expect(number > 0, place, "a field 0")
        yield number, wire, value, value + size
        place = value + size


def _varint(view: memoryview, begin: int, end: int) -> tuple[int, int]:
    """The number, and the offset of its end."""
    number = 0
    for i in range(min(_MAX_VARINT_BYTES, end - begin)):
        byte = view[begin + i]
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number & (2**64 - 1), begin + i + 1
    raise DataError(f"this is not a valid tf.train.Example: at byte {begin} a number does not end")


def _entry(view: memoryview, begin: int, end: int) -> tuple[str, Feature]:
    name, feature = "", Feature(None, [])
    for number, wire, value, value_end in _fields(view, begin, end):
        _expect(number in (1, 2) and wire == _BYTES, value, f"a field {number} in a feature's entry")
        if number == 1:
            try:
                name = str(view[value:value_end], "utf-8")
            except UnicodeDecodeError:
                _expect(False, value, "a name that is not valid UTF-8")
        else:
            feature = _feature(view, value, value_end)
    return name, feature


def _feature(view: memoryview, begin: int, end: int) -> Feature:
    found = Feature(None, [])
    for number, wire, value, value_end in _fields(view, begin, end):
        _expect(number in _KINDS and wire == _BYTES, value, f"a list {number}, which is none of {list(_KINDS)}")
        _expect(found.kind is None, value, "a second list in one feature")
        kind = _KINDS[number]
        if kind == "bytes":
            found = Feature(kind, _texts(view, value, value_end))
        else:
            found = Feature(kind, _numbers(view, value, value_end, kind))
    return found


def _texts(view: memoryview, begin: int, end: int) -> list[bytes]:
    found: list[bytes] = []
    for number, wire, value, value_end in _fields(view, begin, end):
        _expect(number == 1 and wire == _BYTES, value, f"a field {number} in a list of bytes")
        found.append(bytes(view[value:value_end]))
        _expect(len(found) <= _MAX_FIELDS, value, f"a list of more than {_MAX_FIELDS} fields")
    return found


def _numbers(view: memoryview, begin: int, end: int, kind: str) -> npt.NDArray[Any]:
    """The numbers of a list, which are in runs of bytes or in a field each."""
    parts: list[npt.NDArray[Any]] = []
    single = _FOUR_BYTES if kind == "float" else _VARINT
    count = 0
    for number, wire, value, value_end in _fields(view, begin, end):
        _expect(number == 1 and wire in (_BYTES, single), value, f"a field {number} in a list of {kind}")
        parts.append((_floats if kind == "float" else _integers)(view[value:value_end], value))
        count += len(parts[-1])
        _expect(len(parts) <= _MAX_FIELDS, value, f"a list of more than {_MAX_FIELDS} fields")
        _expect(count <= _MAX_NUMBERS, value, f"a list of more than {_MAX_NUMBERS} numbers")
    return np.concatenate(parts) if parts else np.empty(0, "<f4" if kind == "float" else "<i8")


def _floats(run: memoryview, place: int) -> npt.NDArray[Any]:
    _expect(len(run) % 4 == 0 and len(run) <= 4 * _MAX_NUMBERS, place, f"a run of float32 in {len(run)} bytes")
    return np.frombuffer(run, "<f4")


def _integers(run: memoryview, place: int) -> npt.NDArray[np.int64]:
    """All varints of a run, decoded at once: a byte below 128 ends a varint."""
    if not len(run):
        return np.empty(0, np.int64)
    _expect(len(run) <= _MAX_NUMBERS * _MAX_VARINT_BYTES, place, f"a run of int64 in {len(run)} bytes")
    digits = np.frombuffer(run, np.uint8)
    ends = np.flatnonzero(digits < 0x80) + 1
    _expect(len(ends) > 0 and ends[-1] == len(digits), place, "a number that does not end")
    _expect(len(ends) <= _MAX_NUMBERS, place, f"a list of more than {_MAX_NUMBERS} numbers")
    begins = np.concatenate([[0], ends[:-1]])
    _expect(int((ends - begins).max()) <= _MAX_VARINT_BYTES, place, "a number that does not end")
    shifts = 7 * (np.arange(len(digits)) - np.repeat(begins, ends - begins))
    values: npt.NDArray[np.uint64] = (digits & 0x7F).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(values, begins).astype(np.int64)
