"""Durability switched off, in one way at a time: with each of these, `abreast torture` must find a problem.

Only tests use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from abreast.checkpoints import read, write
from abreast.checkpoints.files import CheckpointFiles
from abreast.replacing import replaced


@contextmanager
def broken(way: str) -> Iterator[None]:
    """Inside, checkpoints are written without `fsync`, or under their last name at once, or read without their checksums.

    `way`: "fsync", "rename" or "checksum"; with an empty text, nothing is switched off.
    """
    with ExitStack() as stack:
        for owner, name, value in _replacements(way):
            stack.enter_context(replaced(owner, name, value))
        yield


def _replacements(way: str) -> list[tuple[Any, str, Any]]:
    if way == "fsync":
        return [(CheckpointFiles, name, _nothing) for name in ("sync", "sync_folder")]
    if way == "rename":
        return [
            (write, "part_of", lambda folder, name: folder / name),
            (write, "_free_name", lambda part: part),
            (CheckpointFiles, "rename", _nothing_between_equals(CheckpointFiles.rename)),
        ]
    if way == "checksum":
        return [(read, "hashlib", _AnySums)]
    return []


def _nothing(*args: Any) -> None:
    pass


def _nothing_between_equals(plain: Any) -> Any:
    return lambda files, old, new: None if old == new else plain(files, old, new)


class _AnySums:
    """A replacement of `hashlib` whose sums equal every other sum."""

    @staticmethod
    def sha256() -> _AnySums:
        return _AnySums()

    def update(self, data: Any) -> None:
        pass

    def hexdigest(self) -> str:
        return _AnyText()


class _AnyText(str):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__
