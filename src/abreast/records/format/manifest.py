"""`manifest.json`, which describes a finished data set, and `packing.json`, which describes an unfinished one.

Both contain the SHA-256 of their content and have exactly one spelling, so that a change of any byte is noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType
from abreast.records.format.index import HINT
from abreast.records.format.index_file import VERSION

MANIFEST, PACKING, LOCK = "manifest.json", "packing.json", "packing.lock"
_MAX_BYTES = 1 << 28
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"shard-\d{5,9}")


@dataclass(frozen=True)
class Shard:
    """Name, size in bytes and SHA-256 of a tar and of its index."""

    name: str
    num_samples: int
    tar_bytes: int
    tar_sha256: str
    index_bytes: int
    index_sha256: str


@dataclass(frozen=True)
class Manifest:
    """A finished data set. `settings` are the packer's; `written_by`: versions of the packages that wrote the data set."""

    num_samples: int
    num_skipped: int
    columns: tuple[ColumnType, ...]
    class_names: tuple[str, ...] | None
    settings: dict[str, Any]
    written_by: dict[str, str]
    shards: tuple[Shard, ...]

    @property
    def data_set(self) -> str:
        """A short name that identifies the bytes of all images and columns."""
        return hashlib.sha256("".join(shard.tar_sha256 for shard in self.shards).encode()).hexdigest()[:16]

    @property
    def file_bytes(self) -> int:
        """The bytes of all shards."""
        return sum(shard.tar_bytes + shard.index_bytes for shard in self.shards)


def shard_name(number: int) -> str:
    return f"shard-{number:05d}"


def has_shard(folder: Path) -> bool:
    """Whether a packer finished a shard in this folder: the first shard's index has its name."""
    return (folder / f"{shard_name(0)}.index").exists()


def parts_in(folder: Path) -> list[Path]:
    """The data sets in a folder, with a manifest and shards. A checkpoint has a manifest, too."""
    return [path.parent for path in sorted(folder.glob(f"*/{MANIFEST}")) if any(path.parent.glob("shard-*"))]


def bound(content: Any) -> bytes:
    """The bytes of a file that holds `content` and its digest, in its one spelling."""
    text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1, sort_keys=True, ensure_ascii=False)
    return text.encode() + b"\n"


def unbound(data: bytes, path: Path) -> Any:
    """The content of a file that `bound` made. Raises `DataError` if any byte of it has changed."""
    try:
        whole = json.loads(data)
        if set(whole) == {"content", "sha256"} and bound(whole["content"]) == data:
            return whole["content"]
    except (ValueError, TypeError, RecursionError):
        pass
    raise DataError(f"{path} is damaged: its {len(data)} bytes do not fit their digest", HINT)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def to_bytes(manifest: Manifest) -> bytes:
    content = asdict(manifest) | {
        "format": "abreast records",
        "version": VERSION,
        "columns": [column.to_json() for column in manifest.columns],
    }
    return bound(content)


def read_bytes(path: Path) -> bytes:
    """The bytes of a manifest. Raises `DataError` for a file that is too large to be one."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise DataError(f"{path} is not a file", HINT)  # opening a pipe could wait for ever
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DataError(f"{path} has more than {_MAX_BYTES} bytes, too many for a manifest", HINT)
    return data


def read(folder: Path) -> Manifest:
    """The manifest of a data set. Raises `DataError` if it is missing or damaged."""
    path = folder / MANIFEST
    try:
        data = read_bytes(path)
    except OSError as error:
        raise _no_manifest(folder, error) from None
    content = unbound(data, path)
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        hint = "use a newer abreast, or pack the images again"
        raise DataError(f"{path} has version {version} of the format; this abreast reads {VERSION}", hint)
    try:
        return _from_content(content)
    except (KeyError, TypeError, ValueError, DataError) as error:
        raise DataError(f"{path} does not describe a data set: {getattr(error, 'message', error)}", HINT) from None


def _no_manifest(folder: Path, error: OSError) -> DataError:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return DataError(f"cannot read {folder / MANIFEST}: {error.strerror}")
    if (folder / PACKING).exists():
        hint = "wait for the packer, or run the same `abreast pack` again: it continues where it stopped"
        return DataError(f"{folder} is not completely packed: a packer is at work, or was stopped", hint)
    parts = parts_in(folder)
    if parts:
        names = ", ".join(part.name for part in parts)
        return DataError(
            f"{folder} is not one data set: it has the parts {names}", f"name one of its parts: {parts[0]}"
        )
    return DataError(f"{folder} holds no packed images: there is no {MANIFEST}", "make it with `abreast pack`")


def _from_content(content: dict[str, Any]) -> Manifest:
    shards = tuple(_shard(each) for each in content["shards"])
    manifest = Manifest(
        num_samples=_count(content["num_samples"]),
        num_skipped=_count(content["num_skipped"]),
        columns=tuple(ColumnType.from_json(each) for each in content["columns"]),
        class_names=None if content["class_names"] is None else tuple(str(name) for name in content["class_names"]),
        settings=dict(content["settings"]),
        written_by=dict(content["written_by"]),
        shards=shards,
    )
    if sum(shard.num_samples for shard in shards) != manifest.num_samples:
        raise ValueError("its shards do not add up to its samples")
    if len({shard.name for shard in shards}) != len(shards):
        raise ValueError("it lists a shard twice")
    return manifest


def _shard(content: Any) -> Shard:
    shard = Shard(**content)
    if not (isinstance(shard.name, str) and _SHARD.fullmatch(shard.name)):
        raise ValueError(f"{shard.name!r:.100} is not a name of a shard")
    for digest in (shard.tar_sha256, shard.index_sha256):
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            raise ValueError(f"{shard.name} has an invalid digest")
    for count in (shard.num_samples, shard.tar_bytes, shard.index_bytes):
        _count(count)
    return shard


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.100} is not a count")
    return value
