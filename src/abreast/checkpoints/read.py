"""Reads a checkpoint and checks every byte of it, so that it returns exactly the written content.

Sizes are compared with the files before memory is allocated, names cannot lead out of the folder, and no code is run.
"""

from __future__ import annotations

import errno
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from abreast.checkpoints import manifest as manifests
from abreast.checkpoints.dtypes import bytes_of, check_elements, stored_type
from abreast.checkpoints.files import is_folder, opened, read_into
from abreast.checkpoints.manifest import MANIFEST, FileEntry, Manifest, TensorEntry
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.tensor_file import check_header, check_layout
from abreast.errors import CheckpointError

_CHUNK_BYTES = 8 << 20
_HINT = "use an older checkpoint; `abreast checkpoints FOLDER verify` reports which ones are whole"


def read_checkpoint(path: str | os.PathLike[str]) -> Snapshot:
    """The content of a checkpoint, given its folder.

    Raises a `CheckpointError` that names the file, and the tensor with its bytes there, if anything is missing or changed.
    """
    path = Path(path)
    manifest = read_manifest(path)
    found: dict[str, np.ndarray] = {}
    for file in manifest.files:
        found |= _read_file(path / file.name, file, [each for each in manifest.tensors if each.file == file.name])
    return Snapshot({tensor.place.name: found[tensor.place.name] for tensor in manifest.tensors}, manifest.values)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint. Raises `CheckpointError` if it is damaged, or if a file has another length."""
    _check_folder(path)
    data = _manifest_bytes(path / MANIFEST)
    try:
        manifest = manifests.from_bytes(data)
    except manifests.UnknownVersionError as error:
        raise CheckpointError(f"cannot read {path / MANIFEST}: {error}", "use a newer abreast") from None
    except ValueError as error:
        raise CheckpointError(f"{path / MANIFEST} is damaged: {error}", _HINT) from None
    for file in manifest.files:
        _check_length(path / file.name, file, manifest.tensors)
    return manifest


def _check_folder(path: Path) -> None:
    try:
        found = is_folder(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    if not found:
        raise CheckpointError(f"{path} is not a checkpoint: it is not a folder", "name the folder of a checkpoint")


def _manifest_bytes(path: Path) -> bytes:
    try:
        with opened(path) as (descriptor, num_bytes):
            if num_bytes > manifests.MAX_BYTES:
                raise CheckpointError(f"{path} is damaged: its {num_bytes:,} bytes are too many for a manifest", _HINT)
            buffer = bytearray(num_bytes)
            return bytes(buffer[: read_into(descriptor, memoryview(buffer))])
    except OSError as error:
        raise _unreadable(path, error) from None


def _check_length(path: Path, file: FileEntry, tensors: Sequence[TensorEntry]) -> None:
    try:
        with opened(path) as (_, num_bytes):
            pass
    except OSError as error:
        raise _unreadable(path, error) from None
    if num_bytes > file.num_bytes:
        what = f"{num_bytes - file.num_bytes:,} bytes follow its end at byte {file.num_bytes:,}"
        raise CheckpointError(f"{path} is damaged: {what}", _HINT)
    if num_bytes < file.num_bytes:
        what = f"it ends at byte {num_bytes:,} of {file.num_bytes:,}, in {_part_at(num_bytes, file.name, tensors)}"
        raise CheckpointError(f"{path} is damaged: {what}", _HINT)


def _part_at(offset: int, file: str, tensors: Sequence[TensorEntry]) -> str:
    for tensor in tensors:
        if tensor.file == file and tensor.place.offset <= offset < tensor.place.end:
            return f"the tensor {tensor.place.name!r}, which begins at byte {tensor.place.offset:,}"
    return "its header"


def _read_file(path: Path, file: FileEntry, tensors: Sequence[TensorEntry]) -> dict[str, np.ndarray]:
    places = [tensor.place for tensor in tensors]
    header = bytearray(check_layout(places, file.num_bytes))
    in_file_order = sorted(tensors, key=lambda tensor: (tensor.place.offset, tensor.place.num_bytes))
    sha256 = hashlib.sha256()
    stored = {}
    try:
        with opened(path) as (descriptor, _):
            _read(descriptor, memoryview(header), sha256, path)
            for tensor in in_file_order:
                array = _empty(tensor, path)
                _read(descriptor, bytes_of(array), sha256, path)
                stored[tensor.place.name] = array
    except OSError as error:
        raise _unreadable(path, error) from None
    if sha256.hexdigest() != file.sha256:
        raise _changed(path, in_file_order, stored, len(header))
    try:
        check_header(bytes(header), places)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}", _HINT) from None
    return {
        name: _in_memory(array, tensor, path)
        for (name, array), tensor in zip(stored.items(), in_file_order, strict=True)
    }


def _empty(tensor: TensorEntry, path: Path) -> np.ndarray:
    try:
        return np.empty(tensor.place.shape, stored_type(tensor.place.dtype).stored)
    except ValueError as error:  # more axes than NumPy allows, or a too large size beside a size of 0
        what = f"the tensor {tensor.place.name!r} has the shape {list(tensor.place.shape)}: {error}"
        raise CheckpointError(f"cannot read {path}: {what}", _HINT) from None


def _in_memory(array: np.ndarray, tensor: TensorEntry, path: Path) -> np.ndarray:
    try:
        check_elements(tensor.place.dtype, array)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: in the tensor {tensor.place.name!r}, {error}", _HINT) from None
    return array.astype(stored_type(tensor.place.dtype).in_memory, copy=False)


def _read(descriptor: int, buffer: memoryview, sha256: hashlib._Hash, path: Path) -> None:
    for begin in range(0, len(buffer), _CHUNK_BYTES):
        chunk = buffer[begin : begin + _CHUNK_BYTES]
        if read_into(descriptor, chunk) < len(chunk):
            raise CheckpointError(f"{path} became shorter while it was read", _HINT)
        sha256.update(chunk)


def _changed(path: Path, tensors: Sequence[TensorEntry], stored: dict[str, np.ndarray], header: int) -> CheckpointError:
    """The error for a file whose SHA-256 is wrong, with the part whose own checksum is wrong."""
    for tensor in tensors:
        place = tensor.place
        if zlib.crc32(bytes_of(stored[place.name])) != tensor.crc32:
            where = f"the tensor {place.name!r}, bytes {place.offset:,} to {place.end:,} of the file, does not fit its CRC-32"
            return CheckpointError(f"{path} is damaged: {where}", _HINT)
    where = f"its header, bytes 0 to {header:,}, has changed"
    return CheckpointError(f"{path} is damaged: {where}", _HINT)


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    if isinstance(error, FileNotFoundError):
        return CheckpointError(f"{path} is missing", _HINT)
    if error.errno == errno.ELOOP:
        return CheckpointError(f"cannot read {path}: it is a link, and a checkpoint has none", _HINT)
    return CheckpointError(f"cannot read {path}: {error.strerror or error}")
