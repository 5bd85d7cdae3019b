"""The regular files in a tar, with their offsets. Nothing is unpacked, and members that are not plain files are refused.

Python's `tarfile` treats a damaged header as the end of the tar, and silently drops the members after it. So the headers
are parsed here. Source: POSIX.1-2017, pax, "ustar Interchange Format", and GNU tar's long names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abreast.errors import DataError
from abreast.records.sources.container import Slices, compressed

_BLOCK_BYTES = 512
_MAX_EXTENSION_BYTES = 1 << 20  # size of a long name, or of pax records
_SCANNED_BYTES = 1 << 20
_FILES, _FOLDER, _EXTENSIONS = (b"0", b"\0", b"7"), b"5", (b"L", b"K", b"x", b"g")
_REFUSED = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a pipe"}
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_PAX = re.compile(rb"([1-9][0-9]{0,6}) ([^=\n]+)=")
_HINT = "take the file from a copy, or make it again"


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a tar: `size_bytes` bytes of `path`, from `offset` on."""

    name: str
    path: Path
    offset: int
    size_bytes: int


def members(path: Path) -> Iterator[Member]:
    """Every regular file in the tar at `path`, in order. Raises `DataError`, which names file and byte."""
    with Slices() as slices:
        total, begin = slices.size_bytes(path), 0
        if slices.read(path, 0, min(total, 6)).startswith(_COMPRESSED):
            raise compressed(path)
        said: dict[str, str] = {}  # facts about the next member, from members that hold a name or pax records
        while (header := _header(slices, path, begin, total)) is not None:
            kind, offset = header[156:157], begin + _BLOCK_BYTES
            size = _size(path, begin, header, {} if kind in _EXTENSIONS else said)
            end = offset + -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
            if end > total:
                raise _broken(path, begin, f"a member of {size} bytes is cut off")
            if kind in _EXTENSIONS:
                said |= _said(path, begin, kind, slices.read(path, offset, min(size, _MAX_EXTENSION_BYTES + 1)))
            else:
                name = _checked_name(path, begin, said.get("path") or _name(header))
                _check_kind(path, begin, kind, name)
                if kind != _FOLDER and not name.endswith("/"):
                    yield Member(name, path, offset, size)
                said = {}
            begin = end
        _check_rest(slices, path, begin, total)


def _header(slices: Slices, path: Path, begin: int, total: int) -> bytes | None:
    """The block at `begin`; None at the end of the tar."""
    if begin + _BLOCK_BYTES > total:
        raise _broken(path, begin, "it has no end, so it is cut off")
    header = slices.read(path, begin, _BLOCK_BYTES)
    return header if any(header) else None


def _broken(path: Path, begin: int, what: str) -> DataError:
    return DataError(f"{path} is not a whole tar: at byte {begin} {what}", _HINT)


def _size(path: Path, begin: int, header: bytes, said: dict[str, str]) -> int:
    """The member's size in bytes. Raises `DataError` for a header with a wrong checksum."""
    if _number(header[148:156]) != sum(header[:148]) + 8 * 32 + sum(header[156:]):
        raise _broken(path, begin, "there is no header")
    if header[156:157] == _FOLDER:
        return 0  # the size of a folder has no meaning
    size = int(said["size"]) if re.fullmatch("[0-9]{1,18}", said.get("size", "")) else _number(header[124:136])
    if size is None:
        raise _broken(path, begin, "a header has no size")
    return size


def _number(field: bytes) -> int | None:
    """The number in octal digits, or GNU's binary number, which begins with a set bit; None for anything else."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits.isdigit() or len(digits) > 20:
        return None
    try:
        return int(digits, 8)
    except ValueError:
        return None


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _said(path: Path, begin: int, kind: bytes, data: bytes) -> dict[str, str]:
    """Facts about the next member, from a member with pax records or a long name."""
    if len(data) > _MAX_EXTENSION_BYTES:
        raise _broken(path, begin, f"a long name, or pax records, have more than {_MAX_EXTENSION_BYTES} bytes")
    if kind in (b"L", b"K"):
        return {"path": _text(data.split(b"\0", 1)[0])} if kind == b"L" else {}
    found = dict(_pax(path, begin, data))
    if any(name.startswith("GNU.sparse") for name in found):
        raise _broken(path, begin, "there is a sparse file, which abreast does not read")
    if kind == b"g" and {"path", "size"} & set(found):
        raise _broken(path, begin, "there is one name or size for all members")
    return found if kind == b"x" else {}


def _pax(path: Path, begin: int, data: bytes) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(data):
        match = _PAX.match(data, place)
        end = place + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise _broken(path, begin, "there are pax records that are damaged")
        yield match[2].decode("utf-8", "replace"), _text(data[match.end() : end - 1])
        place = end


def _checked_name(path: Path, begin: int, name: str) -> str:
    """The name. Raises `DataError` for one that leads out of its folder: no file is written, but the tar is suspect."""
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise DataError(f"{path}: refused: at byte {begin} a member has the name {name!r:.200}", _HINT)
    return name.removeprefix("./")


def _check_kind(path: Path, begin: int, kind: bytes, name: str) -> None:
    if kind in (*_FILES, _FOLDER):
        return
    what = _REFUSED.get(kind, f"of type {kind!r}")
    hint = "pack a tar that has plain files only"
    raise DataError(f"{path}: refused: at byte {begin} the member {name!r:.200} is {what}", hint)


def _check_rest(slices: Slices, path: Path, begin: int, total: int) -> None:
    """Raise `DataError` if anything except zeros follows the end of the tar, because it would be lost silently."""
    while begin < total:
        block = slices.read(path, begin, min(_SCANNED_BYTES, total - begin))
        if block.count(0) != len(block):
            hint = "if tars were concatenated, give them one by one"
            raise DataError(f"{path} has data after its end, at byte {begin} or later", hint)
        begin += len(block)
