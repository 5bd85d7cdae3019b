"""TFRecord files of `tf.train.Example`: one feature is the image, the others are columns.

Framing (tensorflow.org, "TFRecords format details"): a length of 8 bytes, its masked CRC32C, the record, its masked CRC32C.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import check_file_bytes, looks_like_image
from abreast.records.format.checksum import crc32c
from abreast.records.format.columns import column_name, free_name
from abreast.records.format.keys import KeyMaker
from abreast.records.sources.container import Contained, Slices, cut_off, files_identity, first_of
from abreast.records.sources.example import Feature, read_example

_HEAD = struct.Struct("<QI")
_HEAD_BYTES, _TAIL_BYTES = _HEAD.size, 4
_MASK = 0xA282EAD8
_IMAGE_NAMES = ("image/encoded", "image", "image_raw", "image_bytes", "encoded", "jpeg", "png", "jpg", "img")
_COLUMN_NAMES = {"image/class/label": "label", "class/label": "label"}
_SEVERAL = re.compile(r"(?:^|/)objects?/")  # features of boxes: arrays, even if the first records have one box each
_EMPTY = {"float": np.empty(0, "<f4"), "int64": np.empty(0, "<i8")}

Place = tuple[Path, int, int]  # a record's offset and its length


def from_tfrecords(files: Iterable[Path], image: str | None = None) -> Contained:
    """The Examples in files. `image` names the feature of images, if it cannot be found automatically."""
    paths = tuple(files)
    with Slices() as slices:
        examples = first_of(_places(paths), lambda place: _seen(_example(slices, place)))
    chosen = _image_feature(examples, image)
    return Contained.of(_TFRecords(paths, chosen, _features(examples, chosen)))


def is_tfrecord(head: bytes) -> bool:
    """True if a file with these first bytes can be a TFRecord file."""
    return len(head) >= _HEAD_BYTES and _masked(head[:8]) == _HEAD.unpack_from(head)[1]


@dataclass(frozen=True)
class _Column:
    """The column for a feature: an array if `several` is True, else one value."""

    name: str
    kind: str
    several: bool
    text: bool

    def value(self, feature: Feature | None) -> Any:
        """The value, or an error that states why it is missing."""
        if feature is None or feature.kind is None or not len(feature.values):
            return _EMPTY[self.kind] if self.several and self.kind in _EMPTY else self._error("has no value")
        if feature.kind != self.kind:
            return self._error(f"is of {feature.kind}, and was of {self.kind} in the first records")
        if isinstance(feature.values, list):
            if self.several or len(feature.values) != 1:
                return self._error(f"has {len(feature.values)} values of bytes, and a column holds one")
            return self._text(feature.values[0])
        if not self.several and len(feature.values) != 1:
            return self._error(f"has {len(feature.values)} values, and had one in the first records")
        return feature.values if self.several else feature.values[0]

    def _text(self, value: bytes) -> Any:
        try:
            return value.decode() if self.text else value
        except UnicodeDecodeError:
            return self._error("is not valid UTF-8, and was text in the first records")

    def _error(self, what: str) -> DataError:
        return DataError(f"the feature of column {self.name!r} {what}", "leave it out: name the columns to keep")


@dataclass(frozen=True)
class _TFRecords:
    files: tuple[Path, ...]
    image: str
    features: Mapping[str, _Column]
    kind: str = "tfrecord"

    def identity(self) -> list[Any]:
        return [self.image, files_identity(self.files)]

    def places(self) -> Iterator[tuple[str, Place]]:
        return _places(self.files)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Place], tuple[Any, Mapping[str, Any]]]]:
        with Slices() as slices:
            yield lambda place: self._read(_example(slices, place))

    def _read(self, example: dict[str, Feature]) -> tuple[bytes, dict[str, Any]]:
        image = example.pop(self.image, None)
        if image is None or not isinstance(image.values, list) or len(image.values) != 1:
            raise DataError(f"the record has no image: its feature {self.image!r} is not one value of bytes")
        columns = {column.name: column.value(example.pop(name, None)) for name, column in self.features.items()}
        for name in example:
            columns[column_name(name)] = DataError(f"the first records have no feature {name!r}, and this one has")
        return image.values[0], columns


def _places(files: Iterable[Path]) -> Iterator[tuple[str, Place]]:
    """Key and place of each record. Raises an error for a damaged length, because no later record can be found."""
    keys = KeyMaker()
    with Slices() as slices:
        for path in files:
            stem, begin, total = keys.key(path.name), 0, slices.size_bytes(path)
            numbers = itertools.count()
            while begin < total:
                size = _length(path, begin, slices.read(path, begin, _HEAD_BYTES))
                if size + _HEAD_BYTES + _TAIL_BYTES > total - begin:
                    raise cut_off(path, begin, size + _HEAD_BYTES + _TAIL_BYTES)
                yield f"{stem}/{next(numbers):08d}", (path, begin, size)
                begin += _HEAD_BYTES + size + _TAIL_BYTES


def _length(path: Path, begin: int, head: bytes) -> int:
    size, checksum = _HEAD.unpack(head)
    if _masked(head[:8]) != checksum:
        packed = head[:2] in (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda") and not begin
        hint = "decompress it first: it begins like gzip or zlib" if packed else "take the file from a copy"
        what = f"the checksum of the length at byte {begin} is wrong"
        raise DataError(f"{path} is not a whole TFRecord file: {what}", hint)
    return int(size)


def _masked(data: bytes) -> int:
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF


def _example(slices: Slices, place: Place) -> dict[str, Feature]:
    path, begin, size = place
    check_file_bytes(size)
    data = slices.read(path, begin + _HEAD_BYTES, size + _TAIL_BYTES)
    where = f"{path}, record at byte {begin}"
    if _masked(data[:size]) != struct.unpack_from("<I", data, size)[0]:
        raise DataError(f"{where}: it is damaged, because its checksum is wrong", "take the file from a copy")
    try:
        return read_example(data[:size])
    except DataError as error:
        raise DataError(f"{where}: {error.message}", error.hint) from None


@dataclass(frozen=True)
class _SeenFeature:
    """Facts about one record's feature."""

    kind: str | None = None
    count: int = 0
    is_image: bool = False
    is_text: bool = True


def _seen(example: Mapping[str, Feature]) -> dict[str, _SeenFeature]:
    return {name: _look(feature) for name, feature in example.items()}


def _look(feature: Feature) -> _SeenFeature:
    values = feature.values if isinstance(feature.values, list) else []
    image = len(values) == 1 and looks_like_image(values[0])
    return _SeenFeature(feature.kind, len(feature.values), image, all(_is_text(value) for value in values))


def _is_text(value: bytes) -> bool:
    try:
        return not re.search("[\x00-\x08\x0e-\x1f]", value.decode())
    except UnicodeDecodeError:
        return False


def _image_feature(examples: Sequence[Mapping[str, _SeenFeature]], image: str | None) -> str:
    names = list(dict.fromkeys(name for example in examples for name in example))
    if image is not None:
        if names and image not in names:
            raise DataError(f"no record has a feature {image!r}", f"the features are: {', '.join(names)}")
        return image
    found = [name for name in names if all(example[name].is_image for example in examples if name in example)]
    found = [name for name in _IMAGE_NAMES if name in found][:1] or found
    if len(found) == 1 or not names:
        return found[0] if found else _IMAGE_NAMES[0]
    what = "several features hold" if found else "no feature holds"
    hint = f"name the right one: --image {(found or names)[0]}"
    raise DataError(f"{what} an image, among: {', '.join(names)}", hint)


def _features(examples: Sequence[Mapping[str, _SeenFeature]], image: str) -> dict[str, _Column]:
    """The columns for all other features of the first records, in the order of their names."""
    columns: dict[str, _Column] = {}
    for name in sorted({name for example in examples for name in example} - {image}):
        found = [example.get(name, _SeenFeature()) for example in examples]
        several = bool(_SEVERAL.search(name)) or any(each.count != 1 for each in found)
        taken = [column.name for column in columns.values()]
        called = free_name(_COLUMN_NAMES.get(name, name.removeprefix("image/")), taken)
        columns[name] = _Column(called, _kind(found), several, all(each.is_text for each in found))
    return columns


def _kind(found: Sequence[_SeenFeature]) -> str:
    """The kind of the first feature that has values: an empty list may have any kind, or none."""
    kinds = [each.kind for each in sorted(found, key=lambda each: not each.count) if each.kind]
    return kinds[0] if kinds else "float"
