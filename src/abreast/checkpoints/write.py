"""Writes a checkpoint completely or not at all, so that it also survives a power cut.

Files are written into a hidden folder. Each file is synced to the disk, then the hidden folder, and only then the folder gets its
name; syncing its parent folder makes the name durable. `write_checkpoint` does all of it. In a job of several processes, one
process begins and commits, and each writes a part.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abreast.checkpoints import manifest as manifests
from abreast.checkpoints.dtypes import bytes_of, check_elements, stored_type
from abreast.checkpoints.files import CheckpointFiles, entries, is_folder, write_errors
from abreast.checkpoints.lock import FolderLock
from abreast.checkpoints.manifest import FileEntry, Manifest, TensorEntry
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.tensor_file import TensorPlace, layout
from abreast.durable_files import make_folders, write_all
from abreast.errors import CheckpointError
from abreast.provenance import now, versions

PART, GONE = ".abreast-part", ".abreast-gone"  # hidden folders that are being written, or removed
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,149}")
_CHUNK_BYTES = 8 << 20
_MARGIN_BYTES = 1 << 20  # space for the names and blocks of files, besides their content
_writing = threading.Lock()


def write_checkpoint(
    folder: str | os.PathLike[str], name: str, snapshot: Snapshot, files: CheckpointFiles | None = None
) -> Path:
    """Write a checkpoint, completely or not at all, and return its folder.

    The folder is called `name`, or `name.001` and so on if that name exists: no checkpoint is ever overwritten.
    Raises `CheckpointError` if it cannot be written, if `name` is invalid, or if another job uses the folder.
    """
    folder, files = Path(folder), files or CheckpointFiles()
    sizes = [array.nbytes for array in snapshot.tensors.values()]
    with _writing:
        make_checkpoint_folder(folder, files)
        with FolderLock(folder):
            part = begin_checkpoint(folder, name, sum(sizes), files)
            with _removed_unless_done(part, files):
                written = write_tensors(part, snapshot.tensors, files=files)
                return commit_checkpoint(part, [written], snapshot.values, files=files)


def make_checkpoint_folder(folder: Path, files: CheckpointFiles | None = None) -> None:
    """Make a folder for checkpoints if there is none. Raises `CheckpointError`."""
    with write_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        if not folder.exists():
            make_folders(folder, files or CheckpointFiles())


def begin_checkpoint(folder: Path, name: str, num_bytes: int, files: CheckpointFiles | None = None) -> Path:
    """Make the hidden folder for the parts of a checkpoint, and return its path, which depends on `folder` and `name` only.

    Parts that dead writers left are removed. The caller holds the folder's `FolderLock` until the checkpoint is committed.

    Args:
        folder: the folder of the checkpoints.
        name: the name of the new one.
        num_bytes: the bytes of all tensors. Raises `CheckpointError` if there is no room for them.
    """
    files = files or CheckpointFiles()
    part = part_of(folder, name)
    with write_errors(folder, num_bytes):
        remove_leftovers(folder, files)
        check_room(folder, num_bytes, files)
        files.make_new_folder(part)
    return part


def part_of(folder: Path, name: str) -> Path:
    """The hidden folder of a checkpoint that is being written. Raises `CheckpointError` for an invalid name."""
    if not _NAME.fullmatch(name):
        hint = "use up to 150 letters, digits, dots, dashes and underscores, a letter or digit first"
        raise CheckpointError(f"a checkpoint cannot have the name {name!r:.200}", hint)
    return folder / f".{name}{PART}"


def check_room(folder: Path, num_bytes: int, files: CheckpointFiles | None = None) -> None:
    """Raise `CheckpointError` unless this many bytes fit on the folder's disk."""
    free = (files or CheckpointFiles()).free_bytes(folder)
    if free < num_bytes + _MARGIN_BYTES:
        hint = "make room, or name a folder on another disk; the checkpoints that were there are untouched"
        what = f"a checkpoint needs {num_bytes + _MARGIN_BYTES:,} bytes, and the disk has {free:,} free"
        raise CheckpointError(f"cannot write a checkpoint to {folder}: {what}", hint)


def write_tensors(
    part: Path, tensors: Mapping[str, np.ndarray], index: int = 0, count: int = 1, files: CheckpointFiles | None = None
) -> dict[str, Any]:
    """Write the file of process `index` of `count`, synced, and return its description, plain JSON, for `commit_checkpoint`."""
    files = files or CheckpointFiles()
    name = manifests.file_name(index, count)
    header, places = layout(tensors)
    with write_errors(part.parent, sum(place.num_bytes for place in places)):
        writer = _HashedFile(part / name, files)
        try:
            writer.write(memoryview(header))
            entries = [
                TensorEntry(name, place, writer.write(_stored_bytes(tensors[place.name], place))) for place in places
            ]
            writer.sync()
        finally:
            writer.close()
    found = {entry.place.name: entry for entry in entries}
    return {
        "file": manifests.file_to_json(FileEntry(name, writer.num_bytes, writer.sha256)),
        "tensors": [manifests.tensor_to_json(found[name]) for name in tensors],
    }


def commit_checkpoint(
    part: Path,
    written: Sequence[Mapping[str, Any]],
    values: Mapping[str, Any],
    order: Sequence[str] | None = None,
    files: CheckpointFiles | None = None,
) -> Path:
    """Give a checkpoint its name after all processes have written their part, and return its folder.

    Args:
        part: the hidden folder.
        written: the results of `write_tensors` from all processes, in rank order.
        values: the plain values.
        order: the order of all tensors; by default the order of the parts.
    """
    files = files or CheckpointFiles()
    manifest = _manifest_of(written, values, order)
    data = manifests.to_bytes(manifest)
    with write_errors(part.parent, manifest.num_bytes + len(data)):
        _check_written(part, manifest)
        writer = _HashedFile(part / manifests.MANIFEST, files)
        try:
            writer.write(memoryview(data))
            writer.sync()
        finally:
            writer.close()
        files.sync_folder(part)
        target = _free_name(part)
        files.rename(part, target)
        files.sync_folder(part.parent)
    return target


def abandon_checkpoint(part: Path, files: CheckpointFiles | None = None) -> None:
    """Remove a hidden folder with its content. Errors are ignored: the next writer removes it."""
    with contextlib.suppress(OSError):
        remove_folder(part, files or CheckpointFiles())


def remove_leftovers(folder: Path, files: CheckpointFiles) -> None:
    """Remove the hidden folders of dead writers. The caller holds the folder's lock, so no living writer owns one."""
    for entry in entries(folder):
        if entry.name.startswith(".") and entry.name.endswith((PART, GONE)) and is_folder(Path(entry.path)):
            abandon_checkpoint(Path(entry.path), files)


def remove_folder(folder: Path, files: CheckpointFiles) -> None:
    """Remove a folder of files."""
    for entry in entries(folder):
        files.remove(Path(entry.path))
    files.remove_folder(folder)


class _HashedFile:
    """A new file, and the SHA-256 of its content."""

    def __init__(self, path: Path, files: CheckpointFiles) -> None:
        self.num_bytes = 0
        self._hash = hashlib.sha256()
        self._files = files
        self._descriptor: int | None = files.create(path)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: memoryview) -> int:
        """Write all of it, and return its CRC-32."""
        crc32 = 0
        for begin in range(0, len(data), _CHUNK_BYTES):
            chunk = data[begin : begin + _CHUNK_BYTES]
            crc32 = zlib.crc32(chunk, crc32)
            self._hash.update(chunk)
            self._write(chunk)
        return crc32

    def _write(self, chunk: memoryview) -> None:
        assert self._descriptor is not None
        write_all(self._descriptor, chunk, self._files)
        self._files.begin_sync(self._descriptor, self.num_bytes, len(chunk))
        self.num_bytes += len(chunk)

    def sync(self) -> None:
        assert self._descriptor is not None
        self._files.sync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._files.close(descriptor)


def _stored_bytes(array: np.ndarray, place: TensorPlace) -> memoryview:
    """The stored bytes of an array, without a copy if the array has that form."""
    # `ascontiguousarray` would turn a scalar into an array of one element.
    stored = np.asarray(array, order="C").astype(stored_type(place.dtype).stored, copy=False)
    try:
        check_elements(place.dtype, stored)
    except ValueError as error:
        raise CheckpointError(
            f"cannot save the tensor {place.name!r}: {error}", "make it from numbers, not from bytes"
        ) from None
    return bytes_of(stored)


def _manifest_of(
    written: Sequence[Mapping[str, Any]], values: Mapping[str, Any], order: Sequence[str] | None
) -> Manifest:
    tensors = [manifests.tensor_from_json(each) for one in written for each in one["tensors"]]
    if order is not None:
        place = {name: number for number, name in enumerate(order)}
        if strays := place.keys() ^ {tensor.place.name for tensor in tensors}:
            raise CheckpointError(
                f"the parts of a checkpoint do not fit together: {min(strays)} is in one of two lists"
            )
        tensors.sort(key=lambda tensor: place[tensor.place.name])
    files = tuple(manifests.file_from_json(one["file"]) for one in written)
    manifest = Manifest(now(), versions(), values, files, tuple(tensors))
    try:
        manifests.check(manifest)
    except ValueError as error:
        raise CheckpointError(f"the parts of a checkpoint do not fit together: {error}") from None
    return manifest


def _check_written(part: Path, manifest: Manifest) -> None:
    for file in manifest.files:
        found = os.stat(part / file.name).st_size
        if found != file.num_bytes:
            what = f"{part / file.name} has {found:,} bytes, and its writer wrote {file.num_bytes:,}"
            raise CheckpointError(what, "all processes of a job need the same file system")


def _free_name(part: Path) -> Path:
    """The first unused name: a rename to a used name would fail, or replace an empty folder."""
    name = part.name.removeprefix(".").removesuffix(PART)
    target, number = part.with_name(name), 0
    while os.path.lexists(target):
        number += 1
        target = part.with_name(f"{name}.{number:03d}")
    return target


@contextlib.contextmanager
def _removed_unless_done(part: Path, files: CheckpointFiles) -> Iterator[None]:
    try:
        yield
    except BaseException:
        abandon_checkpoint(part, files)
        raise
