"""The writer of one shard: its tar, and the index beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.durable_files import Files
from abreast.records.format import index_file, manifest, tar
from abreast.records.format.checksum import crc32c
from abreast.records.format.columns import Array, ColumnType, StoredColumn
from abreast.records.format.index import ENCODINGS, SAMPLE, Index, Note
from abreast.records.packing.durable import PartFile


@dataclass(frozen=True)
class Packed:
    """A sample as it is stored. `orientation` is EXIF's, 1 for upright; `plain` is as in `images.Picture`."""

    key: str
    data: bytes
    encoding: str  # a word of `index.ENCODINGS`
    height: int
    width: int
    channels: int
    columns: Mapping[str, Any]
    orientation: int = 1
    plain: bool = True
    restarts: npt.NDArray[np.unsignedinteger[Any]] | None = None


class ShardWriter:
    """Writes one shard, which becomes part of the data set in `finish`."""

    def __init__(self, folder: Path, number: int, first_sample: int, files: Files) -> None:
        self.name = manifest.shard_name(number)
        self.num_samples = 0
        self.notes: list[Note] = []
        self._folder = folder
        self._files = files
        self._first_sample = first_sample
        self._tar = PartFile(folder / f"{self.name}.tar", files)
        self._digest = hashlib.sha256()
        self._rows: list[tuple[int, ...]] = []  # in the order of the fields of `SAMPLE`
        self._keys: list[bytes] = []
        self._restarts: list[Array] = []
        self._values: list[list[Array]] = []
        self._key_end = self._restart_end = 0

    @property
    def size_bytes(self) -> int:
        return self._tar.size_bytes

    def add(self, sample: Packed, values: list[Array], members: bytes, offset: int) -> None:
        """Append the members of a sample; in `members`, the image's bytes begin at `offset`."""
        begin = self._tar.size_bytes + offset
        self._write(members)
        key = sample.key.encode()
        restarts = np.empty(0, "<u2") if sample.restarts is None else sample.restarts
        self._key_end += len(key)
        self._restart_end += len(restarts)
        place = (begin, len(sample.data), self._key_end, self._restart_end, crc32c(sample.data))
        size = (sample.height, sample.width, sample.channels)
        self._rows.append((*place, *size, ENCODINGS.index(sample.encoding), sample.orientation, sample.plain))
        self._keys.append(key)
        self._restarts.append(restarts)
        self._values.append(values)
        self.num_samples += 1

    def finish(self, source_end: int, columns: Sequence[ColumnType]) -> tuple[manifest.Shard, Index]:
        self._write(tar.END)
        index = Index(
            first_sample=self._first_sample,
            source_end=source_end,
            shard_bytes=self._tar.size_bytes,
            shard_sha256=self._digest.digest(),
            samples=np.array(self._rows, SAMPLE),
            key_bytes=b"".join(self._keys),
            restarts=np.concatenate(self._restarts),
            columns={
                column.name: StoredColumn.of(column, [row[axis] for row in self._values])
                for axis, column in enumerate(columns)
            },
            notes=tuple(self.notes),
        )
        data = index_file.to_bytes(index)
        self._publish(data)
        return described(self.name, index, data), index

    def _publish(self, index: bytes) -> None:
        file = PartFile(self._folder / f"{self.name}.index", self._files)
        try:
            file.write(index)
            file.sync()
            self._tar.sync()
            self._tar.publish()
            self._files.sync_folder(self._folder)
            file.publish()
            self._files.sync_folder(self._folder)
        except BaseException:
            file.abandon()
            raise

    def abandon(self) -> None:
        self._tar.abandon()

    def _write(self, data: bytes) -> None:
        self._tar.write(data)
        self._digest.update(data)


def described(name: str, index: Index, data: bytes) -> manifest.Shard:
    digest = hashlib.sha256(data).hexdigest()
    return manifest.Shard(name, index.num_samples, index.shard_bytes, index.shard_sha256.hex(), len(data), digest)


def members(sample: Packed, columns: Sequence[ColumnType], values: list[Array]) -> tuple[bytes, int]:
    """All members of a sample, and the offset of the image's bytes in them."""
    head = tar.header(f"{sample.key}.{sample.encoding}", len(sample.data))
    padding = bytes(-len(sample.data) % tar.BLOCK_BYTES)
    others = tar.column_members(sample.key, columns, values)
    return b"".join([head, sample.data, padding, *others]), len(head)


def index_bytes(sample: Packed, values: list[Array]) -> int:
    """Bytes of a sample in the index, without the lengths of values that vary."""
    restarts = 0 if sample.restarts is None else sample.restarts.nbytes
    return SAMPLE.itemsize + len(sample.key.encode()) + restarts + sum(value.nbytes for value in values)
