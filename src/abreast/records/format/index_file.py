"""The index of one shard as the bytes of its file: written, read, and checked.

`docs/reference/records-format.md` specifies each byte. All checks that need no shard are here; `manifest` binds indexes
and shards together.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.format.checksum import crc32c
from abreast.records.format.columns import Array, ColumnType, StoredColumn
from abreast.records.format.index import ENCODINGS, HINT, MAX_PIXELS, SAMPLE, Index, Note
from abreast.records.format.keys import is_key

MAGIC = b"ABRINDEX"
VERSION = 1

_HEADER = struct.Struct("<8sIIQQQQQ32sII")
_SECTION = struct.Struct("<48s8sQQII")
_DIGEST_BYTES = 32
_ALIGNMENT = 64
_MAX_SECTIONS = 1024


def to_bytes(index: Index) -> bytes:
    """The bytes of the file. Equal indexes give equal bytes."""
    sections = list(_sections(index))
    place = _HEADER.size + _SECTION.size * len(sections)
    table, body = b"", b""
    for name, kind, data in sections:
        gap = -(place + len(body)) % _ALIGNMENT
        body += bytes(gap)
        table += _SECTION.pack(name.encode(), kind.encode(), place + len(body), len(data), crc32c(data), 0)
        body += data
    total = place + len(body) + _DIGEST_BYTES
    head = _header(index, len(sections), total, 0)
    head = _header(index, len(sections), total, crc32c(head + table))
    content = head + table + body
    return content + hashlib.sha256(content).digest()


def _header(index: Index, num_sections: int, total_bytes: int, checksum: int) -> bytes:
    counts = (index.num_samples, index.first_sample, index.source_end, index.shard_bytes, total_bytes)
    return _HEADER.pack(MAGIC, VERSION, num_sections, *counts, index.shard_sha256, checksum, 0)


def _sections(index: Index) -> Iterable[tuple[str, str, bytes]]:
    yield "columns", "json", _json([stored.type.to_json() for stored in index.columns.values()])
    yield "notes", "json", _json([[note.position, note.key, note.text, note.skipped] for note in index.notes])
    yield "samples", "samples", index.samples.tobytes()
    yield "keys", "|u1", index.key_bytes
    wide = bool(len(index.restarts)) and int(index.restarts.max()) > 0xFFFF
    yield "restarts", "<u4" if wide else "<u2", index.restarts.astype("<u4" if wide else "<u2").tobytes()
    for name, stored in index.columns.items():
        yield f"column.{name}", stored.type.element.str, stored.numbers.tobytes()
        if stored.shapes is not None:
            yield f"shapes.{name}", "<u4", stored.shapes.tobytes()


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def from_bytes(data: bytes | memoryview, name: str) -> Index:
    """Read an index, whose arrays are views of `data`. Raises `DataError`, which names the damaged bytes of file `name`."""
    view = memoryview(data).toreadonly()
    header = _read_header(view, name)
    if hashlib.sha256(view[:-_DIGEST_BYTES]).digest() != view[-_DIGEST_BYTES:]:
        raise _damaged(name, *_find_damage(view, header))
    try:
        return _read(view, header, _read_table(view, header))
    except (ValueError, KeyError, RecursionError, DataError) as error:
        # The digest is right, so the file is not damaged: its writer broke the format.
        raise DataError(f"{name}: {getattr(error, 'message', error)}", HINT) from error


@dataclass(frozen=True)
class _Header:
    num_sections: int
    num_samples: int
    first_sample: int
    source_end: int
    shard_bytes: int
    shard_sha256: bytes


def _read_header(view: memoryview, name: str) -> _Header:
    smallest = _HEADER.size + _DIGEST_BYTES
    if len(view) < smallest:
        raise DataError(f"{name} is cut off: it has {len(view)} bytes, and an index has at least {smallest}", HINT)
    magic, version, num_sections, *counts, digest, checksum, zero = _HEADER.unpack_from(view)
    table_end = _HEADER.size + _SECTION.size * num_sections
    if magic != MAGIC:
        raise _damaged(name, 0, len(MAGIC), "they are not the mark of an index")
    if num_sections > _MAX_SECTIONS or table_end > len(view) - _DIGEST_BYTES:
        raise _damaged(name, 12, 16, f"they claim {num_sections} sections in a file of {len(view)} bytes")
    intact = _header_checksum(view[:table_end]) == checksum
    if version != VERSION and not intact:
        hint = "use a newer abreast, or pack the images again"
        raise DataError(f"{name} has version {version} of the format; this abreast reads {VERSION}", hint)
    if version != VERSION or not intact:
        raise _damaged(name, 0, table_end, "the checksum of header and table is wrong")
    if counts[4] != len(view) or zero:
        raise DataError(f"{name} has {len(view)} bytes, and its header says {counts[4]}", HINT)
    return _Header(num_sections, counts[0], counts[1], counts[2], counts[3], digest)


def _header_checksum(head: memoryview) -> int:
    """The checksum of header and table, computed as if their version were ours and their checksum 0."""
    place = _HEADER.size - 8
    return crc32c(
        bytes(head[:8]) + struct.pack("<I", VERSION) + bytes(head[12:place]) + bytes(4) + bytes(head[place + 4 :])
    )


def _damaged(name: str, begin: int, end: int, why: str) -> DataError:
    return DataError(f"{name} is damaged between bytes {begin} and {end}: {why}", HINT)


def _find_damage(view: memoryview, header: _Header) -> tuple[int, int, str]:
    """The section whose checksum is wrong; the whole file if all are right, as the bytes between sections have none."""
    for section, begin, end, checksum in _table(view, header):
        if begin <= end <= len(view) and crc32c(view[begin:end]) != checksum:
            return begin, end, f"the checksum of section {section[0]!r} is wrong"
    return 0, len(view), "the digest at the end is wrong"


def _table(view: memoryview, header: _Header) -> Iterable[tuple[tuple[str, str], int, int, int]]:
    for i in range(header.num_sections):
        name, kind, offset, size, checksum, _ = _SECTION.unpack_from(view, _HEADER.size + i * _SECTION.size)
        text = name.rstrip(b"\0").decode("ascii", "replace"), kind.rstrip(b"\0").decode("ascii", "replace")
        yield text, offset, offset + size, checksum


def _read_table(view: memoryview, header: _Header) -> dict[tuple[str, str], memoryview]:
    """Sections by name and type. Only alignment separates them, so that none lies outside the file or overlaps."""
    sections: dict[tuple[str, str], memoryview] = {}
    place = _HEADER.size + _SECTION.size * header.num_sections
    for section, begin, end, _ in _table(view, header):
        place += -place % _ALIGNMENT
        if begin != place or not begin <= end <= len(view) - _DIGEST_BYTES:
            raise ValueError(f"section {section[0]!r} is at the wrong place")
        sections[section] = view[begin:end]
        place = end
    if place != len(view) - _DIGEST_BYTES or len(sections) != header.num_sections:
        raise ValueError("the sections do not fill the file")
    return sections


def _read(view: memoryview, header: _Header, sections: dict[tuple[str, str], memoryview]) -> Index:
    samples = np.frombuffer(sections.pop(("samples", "samples")), SAMPLE)
    if len(samples) != header.num_samples:
        raise ValueError(f"it has {len(samples)} samples, and its header says {header.num_samples}")
    wide = ("restarts", "<u4") in sections
    restarts = np.frombuffer(sections.pop(("restarts", "<u4" if wide else "<u2")), "<u4" if wide else "<u2")
    types = [ColumnType.from_json(each) for each in _from_json(sections.pop(("columns", "json")))]
    index = Index(
        first_sample=header.first_sample,
        source_end=header.source_end,
        shard_bytes=header.shard_bytes,
        shard_sha256=header.shard_sha256,
        samples=samples,
        key_bytes=bytes(sections.pop(("keys", "|u1"))),
        restarts=restarts,
        notes=tuple(_note(each) for each in _from_json(sections.pop(("notes", "json")))),
        columns={column.name: _read_column(column, sections, len(samples)) for column in types},
    )
    if sections or len(index.columns) != len(types):
        raise ValueError(f"unknown or repeated sections: {[name for name, _ in sections]}")
    _check_samples(index)
    return index


def _from_json(data: memoryview) -> list[Any]:
    content = json.loads(bytes(data))
    if not isinstance(content, list):
        raise ValueError("a JSON section does not hold a list")
    return content


def _note(data: Any) -> Note:
    match data:
        case [int(position), str(key), str(text), bool(skipped)]:
            return Note(position, key, text, skipped)
    raise ValueError(f"this is not a note: {data!r:.200}")


def _read_column(column: ColumnType, sections: dict[tuple[str, str], memoryview], num_samples: int) -> StoredColumn:
    numbers = np.frombuffer(sections.pop((f"column.{column.name}", column.element.str)), column.element)
    shapes = None
    if column.varies:
        shapes = np.frombuffer(sections.pop((f"shapes.{column.name}", "<u4")), "<u4").reshape(-1, len(column.shape))
    stored = StoredColumn(column, numbers, shapes)
    stored.check(num_samples)
    return stored


def _check_samples(index: Index) -> None:
    samples = index.samples
    _check_ends(samples["key_end"], len(index.key_bytes), "keys")
    _check_ends(samples["restart_end"], len(index.restarts), "restart tables")
    outside = samples["offset"] > index.shard_bytes
    outside |= samples["length"] > index.shard_bytes - np.minimum(samples["offset"], index.shard_bytes)
    good = np.isin(samples["channels"], (1, 3)) & (samples["encoding"] < len(ENCODINGS)) & (samples["plain"] <= 1)
    good &= (samples["orientation"] >= 1) & (samples["orientation"] <= 8) & ~outside
    pixels = samples["height"].astype(np.uint64) * samples["width"]
    good &= (pixels > 0) & (pixels <= MAX_PIXELS)
    if not good.all():
        raise ValueError(f"the description of sample {index.first_sample + int(np.argmin(good))} is invalid")
    bad = [key for key in index.keys if not is_key(key)]
    if bad or len(set(index.keys)) != index.num_samples:
        raise ValueError(f"keys are unsafe or repeated: {bad[:3]}")


def _check_ends(ends: Array, total: int, what: str) -> None:
    steps = np.diff(ends.astype(np.int64), prepend=0)
    if (steps < 0).any() or (int(ends[-1]) if len(ends) else 0) != total:
        raise ValueError(f"the ends of the {what} do not fit their data")
