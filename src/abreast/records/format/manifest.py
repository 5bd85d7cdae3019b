"""`manifest.json`: what a whole data set is, and `packing.json`: what an unfinished one was to become.

Both bind their content by its SHA-256 and have one spelling only, so that no byte can change unnoticed. Imports `columns`,
`format` and `errors`.
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
    """Sizes in bytes and SHA-256 of a tar and of its index."""

    name: str
    num_samples: int
    tar_bytes: int
    tar_sha256: str
    index_bytes: int
    index_sha256: str


@dataclass(frozen=True)
class Manifest:
    """`settings` are those of the packer, `written_by` the versions of what wrote it."""

    num_samples: int
    num_skipped: int
    columns: tuple[ColumnType, ...]
    class_names: tuple[str, ...] | None
    settings: dict[str, Any]
    written_by: dict[str, str]
    shards: tuple[Shard, ...]

    @property
    def data_set(self) -> str:
        """A short name for exactly these bytes of images and columns."""
        return hashlib.sha256("".join(shard.tar_sha256 for shard in self.shards).encode()).hexdigest()[:16]


def shard_name(number: int) -> str:
    return f"shard-{number:05d}"


def bound(content: Any) -> bytes:
    """The one spelling of a file that holds `content` and its digest."""
    text = json.dumps({"content": content, "sha256": _digest(content)}, indent=1, sort_keys=True, ensure_ascii=False)
    return text.encode() + b"\n"


def unbound(data: bytes, path: Path) -> Any:
    """The content of such a file. Raises `DataError` when a byte of it was changed."""
    try:
        whole = json.loads(data)
        if set(whole) == {"content", "sha256"} and bound(whole["content"]) == data:
            return whole["content"]
    except (ValueError, TypeError, RecursionError):
        pass
    raise DataError(f"{path} is damaged: its {len(data)} bytes are not what their digest says", HINT)


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
    """A file of this kind, if it is no larger than one can be."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise DataError(f"{path} is not a file", HINT)  # to open a pipe could take for ever
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DataError(f"{path} has more than {_MAX_BYTES} bytes, which no manifest has", HINT)
    return data


def read(folder: Path) -> Manifest:
    """The manifest of a data set. Raises `DataError` when there is none, or it is damaged."""
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
        hint = "wait for the packer, or run the same `abreast pack` again: it goes on where it stopped"
        return DataError(f"{folder} is not packed to its end: a packer is at work, or was stopped", hint)
    parts = [path.parent.name for path in sorted(folder.glob(f"*/{MANIFEST}"))]
    if parts:
        hint = f"name one of its parts: {folder / parts[0]}"
        return DataError(f"{folder} holds the parts {', '.join(parts)}", hint)
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
        raise ValueError(f"no shard is called {shard.name!r:.100}")
    for digest in (shard.tar_sha256, shard.index_sha256):
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            raise ValueError(f"{shard.name} has a digest that is none")
    for count in (shard.num_samples, shard.tar_bytes, shard.index_bytes):
        _count(count)
    return shard


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.100} is not a count")
    return value
