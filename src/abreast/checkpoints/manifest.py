"""`manifest.json`: the files and tensors of a checkpoint with their lengths and checksums, and its values.

Its last field is the SHA-256 of all bytes before it, so a change of any bit is noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abreast.checkpoints import values
from abreast.checkpoints.dtypes import NAMES
from abreast.checkpoints.tensor_file import TensorPlace, check_layout, num_bytes_of
from abreast.errors import CheckpointError

MANIFEST = "manifest.json"
FORMAT, VERSION = "abreast checkpoint", 1
MAX_BYTES = 1 << 28
_FILE = re.compile(r"tensors-\d{5}-of-\d{5}\.safetensors")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"format", "version", "written_at", "written_by", "values", "files", "tensors", "sha256"}


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of a checkpoint: its file, its place there, and the CRC-32 of its bytes."""

    file: str
    place: TensorPlace
    crc32: int


@dataclass(frozen=True)
class FileEntry:
    """A file of a checkpoint: its name, length and SHA-256."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`. `tensors` are in the snapshot's order, which may differ from the order in the files."""

    written_at: str
    written_by: Mapping[str, str]
    values: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    tensors: tuple[TensorEntry, ...]

    @property
    def num_bytes(self) -> int:
        """The bytes of the tensors' files."""
        return sum(file.num_bytes for file in self.files)


def file_name(index: int, count: int) -> str:
    return f"tensors-{index:05d}-of-{count:05d}.safetensors"


def to_bytes(manifest: Manifest) -> bytes:
    """The bytes of the file. Raises `CheckpointError` if the values are not plain, or too large."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "written_at": manifest.written_at,
        "written_by": dict(manifest.written_by),
        "values": values.to_json(manifest.values),
        "files": [file_to_json(file) for file in manifest.files],
        "tensors": [tensor_to_json(tensor) for tensor in manifest.tensors],
    }
    body = json.dumps(content, indent=1, allow_nan=False).encode().removesuffix(b"\n}")
    data = body + _seal(body)
    if len(data) > MAX_BYTES:
        hint = f"put large arrays into the tensors; {MANIFEST} has at most {MAX_BYTES:,} bytes"
        raise CheckpointError(f"the values of a checkpoint need {len(data):,} bytes, too many", hint)
    return data


def from_bytes(data: bytes) -> Manifest:
    """The manifest in a file's bytes. Raises `ValueError` if any bit has changed, or if the content is invalid."""
    body = data[: -len(_seal(b""))]
    if data != body + _seal(body):
        raise ValueError(f"its {len(data)} bytes do not fit their SHA-256")
    content = values.parse(data)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it does not describe a checkpoint of abreast")
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise UnknownVersionError(f"it has version {version!r:.40} of the format, and this abreast reads {VERSION}")
    if content.keys() != _FIELDS:
        raise ValueError(f"it has the fields {', '.join(sorted(content))[:300]}")
    try:
        return _from_content(content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it does not describe a checkpoint: {error!r:.200}") from None


class UnknownVersionError(ValueError):
    """An error for a version of the format that this abreast does not know."""


def file_to_json(file: FileEntry) -> dict[str, Any]:
    return {"name": file.name, "bytes": file.num_bytes, "sha256": file.sha256}


def tensor_to_json(tensor: TensorEntry) -> dict[str, Any]:
    place = tensor.place
    return {
        "name": place.name,
        "file": tensor.file,
        "dtype": place.dtype,
        "shape": list(place.shape),
        "offset": place.offset,
        "bytes": place.num_bytes,
        "crc32": tensor.crc32,
    }


def file_from_json(content: Any) -> FileEntry:
    name, num_bytes, sha256 = _fields(content, "name", "bytes", "sha256")
    if not (isinstance(name, str) and _FILE.fullmatch(name)):
        raise ValueError(f"{name!r:.100} is not a name of a file of tensors")
    if not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"{name} has an invalid SHA-256")
    return FileEntry(name, _count(num_bytes), sha256)


def tensor_from_json(content: Any) -> TensorEntry:
    name, file, dtype, shape, offset, num_bytes, crc32 = _fields(
        content, "name", "file", "dtype", "shape", "offset", "bytes", "crc32"
    )
    if not (isinstance(name, str) and isinstance(file, str) and isinstance(shape, list)):
        raise ValueError(f"{content!r:.200} is not a tensor")
    if dtype not in NAMES:
        raise ValueError(f"the tensor {name!r} has the unknown type {dtype!r:.40}")
    place = TensorPlace(name, dtype, tuple(_count(each) for each in shape), _count(offset), _count(num_bytes))
    if num_bytes_of(dtype, place.shape) != num_bytes:
        raise ValueError(f"the tensor {name!r} has {num_bytes} bytes, which do not fit {dtype} of the shape {shape}")
    return TensorEntry(file, place, _count(crc32))


def _seal(body: bytes) -> bytes:
    return b',\n "sha256": "%s"\n}\n' % hashlib.sha256(body).hexdigest().encode()


def _from_content(content: dict[str, Any]) -> Manifest:
    manifest = Manifest(
        written_at=_text(content["written_at"]),
        written_by={name: _text(version) for name, version in content["written_by"].items()},
        values=_values(content["values"]),
        files=tuple(file_from_json(each) for each in content["files"]),
        tensors=tuple(tensor_from_json(each) for each in content["tensors"]),
    )
    check(manifest)
    return manifest


def check(manifest: Manifest) -> None:
    """Raise `ValueError` unless each file and tensor is there once, and the tensors fill their files."""
    names = [file.name for file in manifest.files]
    if names != [file_name(index, len(names)) for index in range(len(names))]:
        raise ValueError(f"its files are {', '.join(names)[:300]}")
    if len({tensor.place.name for tensor in manifest.tensors}) != len(manifest.tensors):
        raise ValueError("two of its tensors have the same name")
    if strays := {tensor.file for tensor in manifest.tensors} - {*names}:
        raise ValueError(f"a tensor is in {min(strays)!r:.100}, which is not one of its files")
    places: dict[str, list[TensorPlace]] = {name: [] for name in names}
    for tensor in manifest.tensors:
        places[tensor.file].append(tensor.place)
    for file in manifest.files:
        try:
            check_layout(places[file.name], file.num_bytes)
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from None


def _fields(content: Any, *names: str) -> list[Any]:
    if not isinstance(content, dict) or content.keys() != {*names}:
        raise ValueError(f"{content!r:.200} has other fields than {', '.join(names)}")
    return [content[name] for name in names]


def _values(content: Any) -> Mapping[str, Any]:
    found = values.from_json(content)
    if not isinstance(found, dict):
        raise ValueError("its values are not an object")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.100} is not a text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.100} is not a count")
    return value
