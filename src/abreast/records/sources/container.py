"""Items in files that hold many items. Their places are found first, which is cheap; only the wanted items are read.

The kinds of files are in `webdataset`, `tfrecord`, `recordio`, `parquet` and `huggingface`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType, agreed
from abreast.records.sources.source import Item, Keep, drawn_place, everything, file_identity

_LOOKED_AT = 100

Read = Callable[[Any], tuple[Any, Mapping[str, Any]]]


class Container(Protocol):
    """A file or an object that holds many items, each at its own place."""

    @property
    def kind(self) -> str: ...

    def identity(self) -> list[Any]:
        """Data for JSON that differ for different content."""
        ...

    def places(self) -> Iterator[tuple[str, Any]]:
        """Key and place of each item, in order. Raises `DataError` if the next item cannot be found."""
        ...

    def opened(self) -> AbstractContextManager[Read]:
        """A function that reads image and columns at a place. It raises `DataError` for a damaged item."""
        ...


@dataclass(frozen=True)
class Contained:
    """The source of a container's items. With a `seed`, their order depends only on seed and keys.

    `names` has the names of classes, by the column that counts them. `is_sequential`: reading in another order is slow.
    """

    container: Container
    columns: tuple[ColumnType, ...] | None
    num_items: int | None = None
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_sequential: bool = False
    seed: int | None = None

    @staticmethod
    def of(container: Container) -> Contained:
        """A source whose column types come from its first items, and whose number of items is known at its end."""
        return Contained(container, _looked_at(container))

    @property
    def class_names(self) -> Sequence[str] | None:
        return self.names.get("label")

    @property
    def identity(self) -> dict[str, Any]:
        content = json.dumps([self.container.identity(), {name: list(of) for name, of in self.names.items()}])
        return {"kind": self.container.kind, "sha256": hashlib.sha256(content.encode()).hexdigest()}

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        places: Iterable[tuple[str, Any]] = (place for place in self.container.places() if keep(place[0]))
        if (seed := self.seed) is not None:
            places = sorted(places, key=lambda place: drawn_place(seed, place[0]))
        with self.container.opened() as read:
            for key, place in itertools.islice(places, begin, None):
                yield _item(read, key, place)

    def shuffled(self, seed: int) -> Contained:
        """The same items in an order that depends only on seed and keys. All keys are held in memory."""
        if self.is_sequential:
            hint = "leave shuffle_seed (--shuffle-seed) out: packed samples can be read in any order"
            raise DataError(f"{self.container.kind} is read in its own order, and cannot be shuffled", hint)
        return replace(self, seed=seed)


def _item(read: Read, key: str, place: Any) -> Item:
    try:
        return Item(key, *read(place))
    except DataError as error:
        return Item(key, error)


def _looked_at(container: Container) -> tuple[ColumnType, ...] | None:
    """Types that hold the columns of the first items, read one at a time; None if none of them can be read."""
    with container.opened() as read:
        items = (_item(read, key, place) for key, place in itertools.islice(container.places(), _LOOKED_AT))
        samples = (item.columns for item in items if not isinstance(item.image, DataError))
        first = next(samples, None)
        return None if first is None else agreed(itertools.chain([first], samples))


def first_of(places: Iterable[tuple[str, Any]], read: Callable[[Any], Any]) -> list[Any]:
    """The results of `read` at the first places, to find out the items' layout. Damaged items are left out."""
    found = []
    for _, place in itertools.islice(places, _LOOKED_AT):
        try:
            found.append(read(place))
        except DataError:  # raised again when that item is packed
            continue
    return found


def files_identity(files: Sequence[Path]) -> list[Any]:
    """Names, sizes and times of files, without their folder and their content."""
    return [file_identity(file.parent, file) for file in files]


class Slices:
    """Reads bytes of files by their offset. The last file stays open."""

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
        """Exactly `size_bytes` bytes. Raises `DataError`, before memory is allocated, if the file has fewer."""
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


def compressed(path: Path) -> DataError:
    return DataError(f"{path} is compressed, so that its items cannot be read one by one", "decompress it first")
