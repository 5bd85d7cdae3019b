"""Tars, or a folder of files, in WebDataset's layout: a sample's files follow one another, with equal names up to the dot.

`.cls` holds the number of a class, `.json` an object of columns, `.txt` text, and `.npy` an array of numbers. Other files
become columns of bytes. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import check_file_bytes
from abreast.records.format.columns import column_name
from abreast.records.format.keys import KeyMaker
from abreast.records.sources.container import Contained, Slices, files_identity
from abreast.records.sources.folder import EXTENSIONS, stop
from abreast.records.sources.npy import read_npy
from abreast.records.sources.source import file_identity
from abreast.records.sources.tar_members import Member, members

_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)  # key and extension, as WebDataset defines them
_META = re.compile(r"__[^/]*__(?:$|/)")
_MAX_TEXT_BYTES = 1 << 24
_COMPANIONS = (".cls", ".json", ".txt", ".npy")

Group = dict[str, Member]  # by extension, in lower case


def from_tars(shards: Iterable[Path], image: str | None = None) -> Contained:
    """The samples in tars. `image` is the extension of the image, if a sample has several images."""
    tars = tuple(shards)
    return Contained.of(_WebDataset(tars, lambda: map(members, tars), image))


def from_files(folder: Path, image: str | None = None) -> Contained:
    """The samples in the files of `folder`, read as if the folder were a tar."""
    found = _files(folder)
    return Contained.of(_WebDataset(tuple(member.path for member in found), lambda: [found], image, folder))


def is_layout(folder: Path) -> bool:
    """True if an image has a file `.cls` of its key beside it, or, at the top of the folder, any known file."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        wanted = _COMPANIONS if Path(place) == folder else (".cls",)
        keys = {_key(name) for name in names if name.lower().endswith(wanted)} - {None}
        if keys and any(_key(name) in keys for name in names if Path(name).suffix.lower() in EXTENSIONS):
            return True
    return False


def _files(folder: Path) -> list[Member]:
    """All files below a folder, sorted so that files of one key follow one another."""
    found = []
    for place, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            found.append(Member(path.relative_to(folder).as_posix(), path, 0, _size(path)))
    return sorted(found, key=lambda member: (_key(member.name) or "", member.name))


def _key(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    return None if match is None else match[1]


def _size(path: Path) -> int:
    """The size of a file in bytes; 0 for a broken link, which raises an error when it is read."""
    try:
        found = path.stat()
    except OSError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is not a file", "move it out of the source")
    return found.st_size


@dataclass(frozen=True)
class _WebDataset:
    """`streams` returns the members of each tar. `root` is the folder of the files, or None for tars."""

    files: tuple[Path, ...]
    streams: Callable[[], Iterable[Iterable[Member]]]
    image: str | None
    root: Path | None = None
    kind: str = "webdataset"

    def identity(self) -> list[Any]:
        if self.root is None:
            return files_identity(self.files)
        return [file_identity(self.root, path) for path in self.files]

    def places(self) -> Iterator[tuple[str, Group]]:
        keys = KeyMaker()
        for stream in self.streams():
            for key, group in _groups(stream):
                yield keys.key(key), group

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Group], tuple[Any, Mapping[str, Any]]]]:
        with Slices() as slices:
            yield lambda group: _read(slices, group, self.image)


def _groups(stream: Iterable[Member]) -> Iterator[tuple[str, Group]]:
    """Key and files of each sample. Files without an extension, hidden files, and those in `__folders__` are left out."""
    seen: set[str] = set()
    key, group = "", Group()
    for member in stream:
        match = _NAME.fullmatch(member.name)
        if match is None or _META.match(member.name):
            continue
        if match[1] != key:
            if group:
                yield key, group
            key, group = match[1], {}
            if key in seen:
                raise _twice(member, "a sample's files must follow one another, and no two samples share a key")
            seen.add(key)
        if match[2].lower() in group:
            raise _twice(member, "give each file of a sample an extension of its own")
        group[match[2].lower()] = member
    if group:
        yield key, group


def _twice(member: Member, hint: str) -> DataError:
    return DataError(f"{member.path}: {member.name!r:.200}, whose bytes begin at {member.offset}, is a duplicate", hint)


def _read(slices: Slices, group: Group, image: str | None) -> tuple[Any, dict[str, Any]]:
    chosen = _image_of(group, image)
    check_file_bytes(group[chosen].size_bytes)
    data = _bytes(slices, group[chosen])
    columns: dict[str, Any] = {}
    for extension, member in group.items():
        if extension != chosen:
            for name, value in _columns(slices, extension, member):
                columns[name] = value if name not in columns else _double(name)
    return (read_npy(data) if chosen.endswith("npy") else data), columns


def _bytes(slices: Slices, member: Member) -> bytes:
    return slices.read(member.path, member.offset, member.size_bytes)


def _double(name: str) -> DataError:
    return DataError(f"two files of the sample give the column {name!r}", "leave it out: name the columns to keep")


def _image_of(group: Group, image: str | None) -> str:
    """The extension of the image."""
    if image is not None:
        if image.lower() in group:
            return image.lower()
        raise DataError(f"the sample has no .{image}: it has {_listed(group)}")
    found = [extension for extension in group if f".{extension}" in EXTENSIONS]
    found = found or [extension for extension in group if f".{extension.rpartition('.')[2]}" in EXTENSIONS]
    if not found and "npy" in group:
        return "npy"
    if len(found) != 1:
        what = "no image" if not found else "several images"
        hint = f"name the extension of the image: --image {found[0]}" if found else None
        raise DataError(f"the sample has {what}: it has {_listed(group)}", hint)
    return found[0]


def _listed(group: Group) -> str:
    return ", ".join(f".{extension}" for extension in group)


def _columns(slices: Slices, extension: str, member: Member) -> Iterator[tuple[str, Any]]:
    """Names and values of the columns in one file; an error in place of an invalid value."""
    before, _, last = extension.rpartition(".")
    name = column_name(before or {"cls": "label"}.get(last, last))
    limit = _MAX_TEXT_BYTES if last in ("cls", "json", "txt") else None
    try:
        check_file_bytes(member.size_bytes, limit)
        data = _bytes(slices, member)
        if last == "json":
            content = json.loads(data)
            pairs = content.items() if isinstance(content, dict) else [(name, content)]
            yield from ((column_name(each), _of_json(each, value)) for each, value in pairs)
        else:
            yield (name if last in _KNOWN else column_name(extension)), _KNOWN.get(last, bytes)(data)
    except DataError as error:
        yield name, DataError(f".{extension}: {error.message}", error.hint)
    except (ValueError, RecursionError) as error:
        yield name, DataError(f"cannot read .{extension}: {error!s:.100}")


def _of_json(name: str, value: Any) -> Any:
    if isinstance(value, bool | float | str) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    array = np.asarray(value) if isinstance(value, list) else None
    if array is not None and array.dtype.kind in "biuf":
        return array
    what = "null" if value is None else f"{value!r:.40}"
    return DataError(f"{name!r} in the .json is {what}", "columns hold numbers, text and lists of numbers")


def _class(data: bytes) -> int:
    text = data.decode("ascii", "replace").strip()
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise DataError(f"{text!r:.40} is not a whole number")
    return int(text)


_KNOWN: dict[str, Callable[[bytes], Any]] = {
    "cls": _class,
    "txt": lambda data: data.decode("utf-8"),
    "npy": read_npy,
    "bin": bytes,
}
