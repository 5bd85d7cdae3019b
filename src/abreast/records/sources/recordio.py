"""RecordIO files of MXNet, as im2rec writes them: each image has a header with its labels.

Framing (dmlc-core, recordio.h): a magic number, 3 bits of flag and 29 bits of length, the bytes, and zeros up to a multiple
of four bytes. If the data contain the magic number, the record is split there into parts (flags 1, 2 and 3), and the
number is left out.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.decoding.images import check_file_bytes
from abreast.records.format.keys import KeyMaker
from abreast.records.sources.container import Contained, Slices, cut_off, files_identity, first_of

MAGIC = struct.pack("<I", 0xCED7230A)
_HEAD = struct.Struct("<4sI")
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_LABELS = struct.Struct("<IfQQ")  # im2rec's header: number of labels, the label, id, id2
_MAX_INDEX_BYTES = 1 << 30
_MAX_PARTS = 1 << 16
_WITHOUT_INDEX = "remove it: without an index, abreast searches for the records"

Place = tuple[Path, int]


def from_recordio(files: Iterable[Path]) -> Contained:
    """Images with the columns `label` and `id`. A file `.idx` beside a `.rec` makes a search for the records unnecessary."""
    paths = tuple(files)
    with Slices() as slices:
        first = first_of(_RecordIO(paths).places(), lambda place: _headed(slices, place)[:2])
    labels = [labels for _, labels in first]
    several = any(len(each) != 1 for each in labels)
    whole = all(np.isfinite(each).all() and (each == np.floor(each)).all() for each in labels)
    with_id2 = any(ids[1] for ids, _ in first)
    return Contained.of(_RecordIO(paths, several, whole, with_id2))


@dataclass(frozen=True)
class _RecordIO:
    """RecordIO files as a container. `several`: labels are arrays. `whole`: labels are int64."""

    files: tuple[Path, ...]
    several: bool = False
    whole: bool = True
    with_id2: bool = False
    kind: str = "recordio"

    def identity(self) -> list[Any]:
        return files_identity([*self.files, *(index for path in self.files if (index := _index_of(path)) is not None)])

    def places(self) -> Iterator[tuple[str, Place]]:
        keys = KeyMaker()
        with Slices() as slices:
            for path in self.files:
                stem, index = keys.key(path.stem), _index_of(path)
                begins = _scanned(slices, path) if index is None else _indexed(slices, path, index)
                for number, begin in enumerate(begins):
                    yield f"{stem}/{number:08d}", (path, begin)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Place], tuple[Any, Mapping[str, Any]]]]:
        with Slices() as slices:
            yield lambda place: self._read(slices, place)

    def _read(self, slices: Slices, place: Place) -> tuple[bytes, dict[str, Any]]:
        ids, labels, image = _headed(slices, place)
        columns: dict[str, Any] = {"label": self._label(labels), "id": np.uint64(ids[0])}
        if self.with_id2:
            columns["id2"] = np.uint64(ids[1])
        elif ids[1]:
            columns["id2"] = DataError(f"the record has id2 {ids[1]}, and the first records have no id2")
        return image, columns

    def _label(self, labels: npt.NDArray[Any]) -> Any:
        if not self.several and len(labels) != 1:
            return DataError(f"the record has {len(labels)} labels, and each of the first records has one")
        if not self.whole:
            return labels if self.several else labels[0]
        if not (np.isfinite(labels).all() and (labels == np.floor(labels)).all() and (abs(labels) < 2**53).all()):
            return DataError(f"the record has the label {labels!r:.80}, and the first labels are whole numbers")
        numbers = labels.astype(np.int64)
        return numbers if self.several else numbers[0]


def _index_of(path: Path) -> Path | None:
    index = path.with_suffix(".idx")
    return index if index.is_file() else None


def _indexed(slices: Slices, path: Path, index: Path) -> Iterator[int]:
    """The offsets of the records, from the index. Raises `DataError` if the index leaves out a record.

    The last record is checked first, because it shows that an index was cut off.
    """
    total = slices.size_bytes(path)
    bounds = [*_begins(index, total), total]
    if bounds[0] != 0:
        raise _left_out(index, 0)
    if total:
        _check_end(slices, path, index, bounds[-2], total)
    for begin, end in itertools.pairwise(bounds):
        _check_end(slices, path, index, begin, end)
        yield begin


def _check_end(slices: Slices, path: Path, index: Path, begin: int, expected: int) -> None:
    """Raise `DataError` unless the record ends where the next one begins, according to the index."""
    try:
        end = max(end for _, _, end in _parts(slices, path, begin))
    except DataError:  # raised again when that record is packed; the others can be packed without it
        return
    if end < expected:
        raise _left_out(index, end)
    if end > expected:
        raise DataError(f"{index} names byte {expected}, which is inside of the record at byte {begin}", _WITHOUT_INDEX)


def _left_out(index: Path, begin: int) -> DataError:
    return DataError(f"{index} does not name the record at byte {begin} of the .rec beside it", _WITHOUT_INDEX)


def _begins(index: Path, total: int) -> list[int]:
    """The sorted offsets in the lines of `key offset`."""
    try:
        if index.stat().st_size > _MAX_INDEX_BYTES:
            raise DataError(f"{index} has more than {_MAX_INDEX_BYTES} bytes")
        rows = [line.split() for line in index.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {index}: {error}") from None
    for number, row in enumerate(rows, start=1):
        if len(row) != 2 or not re.fullmatch("[0-9]{1,18}", row[1]) or int(row[1]) >= total:
            raise DataError(
                f"{index}, line {number}: {' '.join(row)!r:.80} is not a place in the .rec beside it", _WITHOUT_INDEX
            )
    begins = sorted(int(row[1]) for row in rows)
    if len(set(begins)) != len(begins):
        raise DataError(f"{index} names a record twice", _WITHOUT_INDEX)
    return begins


def _scanned(slices: Slices, path: Path) -> Iterator[int]:
    begin, total = 0, slices.size_bytes(path)
    while begin < total:
        yield begin
        begin = max(end for _, _, end in _parts(slices, path, begin))


def _parts(slices: Slices, path: Path, begin: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a record: the offset of its bytes, their number, and the offset of the next part."""
    total, expected = slices.size_bytes(path), (_WHOLE, _FIRST)
    for _ in range(_MAX_PARTS):
        magic, word = _HEAD.unpack(slices.read(path, begin, _HEAD.size))
        flag, size = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
        if magic != MAGIC or flag not in expected:
            what = "no magic number" if magic != MAGIC else f"a part with flag {flag}"
            raise DataError(f"{path} is not a whole RecordIO file: at byte {begin} there is {what}", _hint(path))
        data, end = begin + _HEAD.size, begin + _HEAD.size + -(-size // 4) * 4
        if end > total:
            raise cut_off(path, begin, end - begin)
        yield data, size, end
        if flag in (_WHOLE, _LAST):
            return
        begin, expected = end, (_MIDDLE, _LAST)
    raise DataError(f"{path}: the record before byte {begin} has more than {_MAX_PARTS} parts")


def _hint(path: Path) -> str:
    index = _index_of(path)
    return "take the file from a copy" + (f", or remove {index.name} if it belongs to another file" if index else "")


def _headed(slices: Slices, place: Place) -> tuple[tuple[int, int], npt.NDArray[Any], bytes]:
    """The two ids, the labels and the image of a record."""
    path, begin = place
    parts = list(_parts(slices, path, begin))
    check_file_bytes(sum(size for _, size, _ in parts))
    record = MAGIC.join(slices.read(path, data, size) for data, size, _ in parts)
    if len(record) < _LABELS.size:
        raise DataError(f"{path}, record at byte {begin}: {len(record)} bytes are too few for a header of labels")
    flag, label, *ids = _LABELS.unpack_from(record)
    if 4 * flag > len(record) - _LABELS.size:
        raise DataError(f"{path}, record at byte {begin}: it claims {flag} labels in {len(record)} bytes")
    labels = np.frombuffer(record, "<f4", flag, _LABELS.size).copy() if flag else np.array([label], "<f4")
    return (ids[0], ids[1]), labels, record[_LABELS.size + 4 * flag :]
