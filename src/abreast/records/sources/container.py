"""Items inside of files that hold many: their places are found first, which is cheap, and only those wanted are read.

What each kind of file looks like is in `webdataset`, `tfrecord`, `recordio`, `parquet` and `huggingface`. Imports `source`,
`columns` and `errors`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType, agreed
from abreast.records.sources.source import Item, Keep, drawn_place, everything, file_identity

_LOOKED_AT = 100

Read = Callable[[Any], tuple[Any, Mapping[str, Any]]]


class Container(Protocol):
    """A kind of file, or of object, that holds many items, each at a place of its own."""

    @property
    def kind(self) -> str: ...

    @property
    def num_items(self) -> int | None:
        """None when only reading to the end will tell."""
        ...

    @property
    def is_sequential(self) -> bool:
        """Whether reading in any other order than its own is slow."""
        ...

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """What the numbers of columns mean, where that is known."""
        ...

    def identity(self) -> list[Any]:
        """What tells its content from another one, for JSON."""
        ...

    def places(self) -> Iterator[tuple[str, Any]]:
        """Key and place of each item, in order. Raises `DataError` where no next item can be found."""
        ...

    def opened(self) -> AbstractContextManager[Read]:
        """What reads image and columns at a place; it raises `DataError` for an item that is damaged."""
        ...


@dataclass(frozen=True)
class Contained:
    """A source out of a container. With a `seed` its items come in an order that depends on seed and keys only."""

    container: Container
    columns: tuple[ColumnType, ...] | None
    seed: int | None = None

    @staticmethod
    def of(container: Container, columns: tuple[ColumnType, ...] | None = None) -> Contained:
        """With types for its columns; if none are given, those that the first items agree on."""
        return Contained(container, _looked_at(container) if columns is None else columns)

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        return self.container.names

    @property
    def class_names(self) -> Sequence[str] | None:
        return self.container.names.get("label")

    @property
    def identity(self) -> dict[str, Any]:
        content = json.dumps([self.container.identity(), {name: list(of) for name, of in self.names.items()}])
        return {"kind": self.container.kind, "sha256": hashlib.sha256(content.encode()).hexdigest()}

    @property
    def num_items(self) -> int | None:
        return self.container.num_items

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        places: Iterable[tuple[str, Any]] = (place for place in self.container.places() if keep(place[0]))
        if (seed := self.seed) is not None:
            places = sorted(places, key=lambda place: drawn_place(seed, place[0]))
        with self.container.opened() as read:
            for key, place in itertools.islice(places, begin, None):
                yield _item(read, key, place)

    def shuffled(self, seed: int) -> Contained:
        """In an order that depends on seed and keys only; all keys are held in memory."""
        if self.container.is_sequential:
            hint = "leave shuffle_seed (--shuffle-seed) out: whoever reads the samples can take them in any order"
            raise DataError(f"{self.container.kind} is read in its own order, and cannot be shuffled", hint)
        return replace(self, seed=seed)


def _item(read: Read, key: str, place: Any) -> Item:
    try:
        return Item(key, *read(place))
    except DataError as error:
        return Item(key, error)


def _looked_at(container: Container) -> tuple[ColumnType, ...] | None:
    """What the first items agree on, of which one at a time is in memory; None without any that can be read."""
    with container.opened() as read:
        items = (_item(read, key, place) for key, place in itertools.islice(container.places(), _LOOKED_AT))
        samples = (item.columns for item in items if not isinstance(item.image, DataError))
        first = next(samples, None)
        return None if first is None else agreed(itertools.chain([first], samples))


def first_of(places: Iterable[tuple[str, Any]], read: Callable[[Any], Any]) -> list[Any]:
    """What `read` finds at the first places, to tell what the items look like; damaged ones are left out."""
    found = []
    for _, place in itertools.islice(places, _LOOKED_AT):
        try:
            found.append(read(place))
        except DataError:  # told where that item is packed
            continue
    return found


def files_identity(files: Sequence[Path]) -> list[Any]:
    """Names, sizes and times of files; where they lie does not count, nor what is in them."""
    return [file_identity(file.parent, file) for file in files]


class Slices:
    """Reads bytes of files by their place. The file that was read last stays open."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._descriptor = -1

    def __enter__(self) -> Slices:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._path is not None:
            os.close(self._descriptor)
            self._path = None

    def size_bytes(self, path: Path) -> int:
        return os.fstat(self._opened(path)).st_size

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """Just so many bytes; nothing is allocated for more than the file has. Raises `DataError`."""
        descriptor = self._opened(path)
        if offset + size_bytes > os.fstat(descriptor).st_size:
            raise cut_off(path, offset, size_bytes)
        try:
            data = os.pread(descriptor, size_bytes, offset)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        if len(data) < size_bytes:
            raise cut_off(path, offset, size_bytes)
        return data

    def _opened(self, path: Path) -> int:
        if self._path != path:
            self.close()
            try:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise DataError(f"cannot read {path}: {error.strerror}") from None
            self._path = path
        return self._descriptor


def cut_off(path: Path, offset: int, size_bytes: int) -> DataError:
    return DataError(
        f"{path} is cut off: at byte {offset} there should be {size_bytes} more", "take the file from a copy"
    )
