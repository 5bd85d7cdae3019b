"""The writer of a data set's shards. A kill at any moment leaves a folder that is whole, can be continued, or is refused.

A shard is part of the data set as soon as its index has its name. `manifest.json` is written last, and no reader opens a
folder without it. The checks of the folder itself are in `destination`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records.format import index_file, manifest, tar
from abreast.records.format.columns import Array, ColumnType, fitted, types_of
from abreast.records.format.index import Index, Note
from abreast.records.format.keys import checked_key
from abreast.records.packing.durable import PART, write_errors, write_file
from abreast.records.packing.shard_writer import Packed, ShardWriter, described, index_bytes, members

_OURS = re.compile(r"shard-\d{5,9}\.(?:tar|index)(?:\.part)?")


class Refused(DataError):
    """A sample that cannot be stored. The samples before it are safe."""


class DatasetWriter:
    """Writes a data set into `folder`, or continues one. `destination.opened` makes it, and holds the folder's lock."""

    def __init__(self, folder: Path, settings: dict[str, Any], shard_bytes: int, files: Files) -> None:
        self.folder = folder
        self.columns: tuple[ColumnType, ...] | None = None
        self.shards: list[manifest.Shard] = []
        self.notes: list[Note] = []
        self.num_samples = 0
        self.source_end = 0
        self._settings = settings
        self._shard_bytes = shard_bytes
        self._files = files
        self._keys: set[str] = set()
        self._shard: ShardWriter | None = None

    def add(self, position: int, sample: Packed) -> None:
        """Append the sample made of item `position` of the source. Raises `Refused` if it cannot be stored."""
        try:
            columns, values = self._checked(sample)
        except DataError as error:
            raise Refused(error.message, error.hint) from error
        data, offset = members(sample, columns, values)
        with write_errors(self.folder):
            shard = self._shard_with_room(position, len(data), columns)
            shard.add(sample, values, data, offset)
        self._keys.add(sample.key)
        self.num_samples += 1

    def check(self, sample: Packed) -> int:
        """Count a sample without writing it. Raises `DataError` if it could not be appended.

        Returns its bytes in a shard and in the index.
        """
        self.columns, values = self._checked(sample)
        self._keys.add(sample.key)
        self.num_samples += 1
        return len(members(sample, self.columns, values)[0]) + index_bytes(sample, values)

    def _checked(self, sample: Packed) -> tuple[tuple[ColumnType, ...], list[Array]]:
        if checked_key(sample.key) in self._keys:
            raise DataError(f"two samples have the key {sample.key!r}", "give each sample a key of its own")
        columns = types_of(sample.columns) if self.columns is None else self.columns
        return columns, _values(sample, columns)

    def _shard_with_room(self, position: int, num_bytes: int, columns: tuple[ColumnType, ...]) -> ShardWriter:
        if self._shard is not None and self._shard.size_bytes + num_bytes + len(tar.END) > self._shard_bytes:
            self._finish_shard(position)
        if self._shard is None:
            self.columns = columns
            self._shard = ShardWriter(self.folder, len(self.shards), self.num_samples, self._files)
            self._shard.notes = [note for note in self.notes if note.position >= self.source_end]
        return self._shard

    def note(self, note: Note) -> None:
        """Keep the note in the open shard, or in the next one if none is open."""
        self.notes.append(note)
        if self._shard is not None:
            self._shard.notes.append(note)

    def finish(self, position: int, class_names: Sequence[str] | None, written_by: dict[str, str]) -> manifest.Manifest:
        """Finish the data set, at the end of a source of `position` items."""
        with write_errors(self.folder):
            if self._shard is not None:
                self._finish_shard(position)
            elif self.shards and position > self.source_end:
                self._note_in_last_shard(position)
            if not self.shards:
                self._files.remove(self.folder / manifest.PACKING)
                raise self._nothing()
            whole = self._manifest(class_names, written_by)
            write_file(self.folder / manifest.MANIFEST, manifest.to_bytes(whole), self._files)
            self._files.remove(self.folder / manifest.PACKING)
            self._files.sync_folder(self.folder)
        return whole

    def _note_in_last_shard(self, source_end: int) -> None:
        """Write the last shard's index again: all items after it were skipped, and no other shard can hold their notes."""
        name = self.shards[-1].name
        path = self.folder / f"{name}.index"
        index = index_file.from_bytes(path.read_bytes(), str(path))
        late = [note for note in self.notes if note.position >= self.source_end]
        index = replace(index, source_end=source_end, notes=(*index.notes, *late))
        data = index_file.to_bytes(index)
        write_file(path, data, self._files)
        self.shards[-1] = described(name, index, data)
        self.source_end = source_end

    def _nothing(self) -> DataError:
        skipped = [note for note in self.notes if note.skipped]
        if not skipped:
            hint = "give the part a larger share, or another split_seed" if "split" in self._settings else None
            return DataError(f"there is no image to pack into {self.folder}", hint)
        first = f"the first, {skipped[0].key}: {skipped[0].text}"
        return DataError(f"there is no image to pack into {self.folder}: all {len(skipped)} are skipped; {first}")

    def _manifest(self, class_names: Sequence[str] | None, written_by: dict[str, str]) -> manifest.Manifest:
        return manifest.Manifest(
            num_samples=self.num_samples,
            num_skipped=sum(note.skipped for note in self.notes),
            columns=self.columns or (),
            class_names=None if class_names is None else tuple(class_names),
            settings=self._settings,
            written_by=written_by,
            shards=tuple(self.shards),
        )

    def abandon(self) -> None:
        """Remove the unfinished shard. The shards before it stay, and the same command continues after them."""
        if self._shard is not None:
            self._shard.abandon()
            self._shard = None

    def resume(self) -> None:
        """Continue after the whole shards in the folder, and remove the files of an unfinished one."""
        while (found := self._whole_shard(len(self.shards))) is not None:
            shard, index = found
            self.shards.append(shard)
            self._keys.update(index.keys)
            self.notes += index.notes
            self.num_samples += index.num_samples
            self.source_end = index.source_end
            self.columns = tuple(stored.type for stored in index.columns.values())
        names = {shard.name for shard in self.shards}
        for path in sorted(self.folder.iterdir()):
            ours = _OURS.fullmatch(path.name) or path.name == manifest.MANIFEST + PART
            if ours and (path.suffix == PART or path.stem not in names):
                self._files.remove(path)

    def _whole_shard(self, number: int) -> tuple[manifest.Shard, Index] | None:
        name = manifest.shard_name(number)
        path = self.folder / f"{name}.index"
        try:
            data = path.read_bytes()
            tar_bytes = (self.folder / f"{name}.tar").stat().st_size
            index = index_file.from_bytes(data, str(path))
        except (FileNotFoundError, DataError):
            return None
        fits = tar_bytes == index.shard_bytes and index.first_sample == self.num_samples
        return (described(name, index, data), index) if fits else None

    def _finish_shard(self, source_end: int) -> None:
        assert self._shard is not None and self.columns is not None
        shard, _ = self._shard.finish(source_end, self.columns)
        self._shard = None
        self.shards.append(shard)
        self.source_end = source_end


def _values(sample: Packed, columns: Sequence[ColumnType]) -> list[Array]:
    names = [column.name for column in columns]
    if set(sample.columns) != set(names):
        hint = "select the columns that all samples have (columns=..., --columns), or leave out such samples"
        raise DataError(f"the sample has the columns {list(sample.columns)}, and earlier samples have {names}", hint)
    return [fitted(column, sample.columns[column.name]) for column in columns]
