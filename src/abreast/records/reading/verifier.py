"""`verify`: a check of every byte of a packed data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path

from abreast.errors import DataError
from abreast.records.format import manifest
from abreast.records.format.checksum import sha256_of_file
from abreast.records.reading.reader import Records, check_size


def verify(folder: str | PathLike[str]) -> list[str]:
    """One line for each damage, with file, sample and bytes; empty if every byte is as it was written.

    Args:
        folder: the folder that `pack` made.

    Raises:
        DataError: the folder does not exist, or holds no data set.

    Example:
        >>> import numpy as np
        >>> from abreast.records import pack, verify
        >>> summary = pack(np.zeros((3, 8, 8, 3), np.uint8), "images.pack")
        >>> verify("images.pack")
        []
    """
    path = Path(fspath(folder))
    if not _is_known(path):
        parts = manifest.parts_in(path)
        hint = f"name one of its parts: {parts[0]}" if parts else "name a folder that `abreast pack` made"
        raise DataError(f"{path} holds no packed images", hint)
    try:
        whole = manifest.read(path)
    except DataError as error:
        return [error.message]
    problems: list[str] = []
    readable: list[int] = []
    for place, shard in enumerate(whole.shards):
        tar = _damage(path / f"{shard.name}.tar", shard.tar_bytes, shard.tar_sha256)
        index = _damage(path / f"{shard.name}.index", shard.index_bytes, shard.index_sha256)
        problems += [problem for problem in (tar, index) if problem is not None]
        readable += [place] if index is None else []
    return list(dict.fromkeys([*problems, *_damaged_samples(path, readable, known=bool(problems))]))


def _is_known(folder: Path) -> bool:
    """True if the folder has any file of a data set. Raises `DataError` for a folder that cannot be read."""
    try:
        known = any((folder / name).exists() for name in (manifest.MANIFEST, manifest.PACKING))
        return known or any(folder.glob("shard-*"))
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None


def _damage(path: Path, size_bytes: int, digest: str) -> str | None:
    try:
        check_size(path, size_bytes)
        is_whole = sha256_of_file(path) == digest
    except DataError as error:
        return error.message
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    return None if is_whole else f"the SHA-256 of {path} is not the one in {manifest.MANIFEST}"


def _damaged_samples(folder: Path, places: Sequence[int], known: bool) -> Iterator[str]:
    """One line for each damaged sample of these shards, or for a data set that cannot be opened.

    The second is left out if other damage is `known`, which explains it.
    """
    try:
        records = Records(folder)
    except DataError as error:
        if not known:
            yield error.message
        return
    with records:
        for place in places:
            yield from _damaged_in_shard(records, place)


def _damaged_in_shard(records: Records, place: int) -> Iterator[str]:
    """One line for each damaged sample of a shard, counted by its index: a manifest may claim any number of samples."""
    try:
        index = records.index(place)
    except DataError as error:
        yield error.message
        return
    for number in range(index.first_sample, index.first_sample + index.num_samples):
        try:
            records[number]
        except DataError as error:
            yield error.message
