"""`ItemSource`, the protocol of all sources: they give items in the same order each time."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType

Keep = Callable[[str], bool]  # True if an item with this key is wanted


def everything(key: str) -> bool:
    return True


class Missing(DataError):
    """The error in place of a missing value."""


@dataclass(frozen=True)
class Item:
    """An image to pack, with its columns.

    Args:
        key: its name in the data set, unique, such as `cats/1.jpg`.
        image: the path of a file, the bytes of a file, or `uint8` pixels of shape (height, width) or (height, width, channels)
            with 1 or 3 channels. An error in its place is raised when the item is packed.
        columns: values by name: numbers, text, bytes, or arrays of numbers.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Item, pack
        >>> items = [Item(f"scan/{number}", np.zeros((8, 8), np.uint8), {"age": 40 + number}) for number in range(3)]
        >>> pack(items, "scans.pack")
        <Summary of scans.pack: 3 images in 1 shard, 0.0 MB, 0 skipped>
    """

    key: str
    image: Path | bytes | npt.NDArray[np.uint8] | DataError
    columns: Mapping[str, Any] = field(default_factory=dict)


class ItemSource(Protocol):
    """Items, and facts about them that are known before they are read."""

    @property
    def columns(self) -> tuple[ColumnType, ...] | None:
        """The types of the columns; None if the first item determines them."""
        ...

    @property
    def class_names(self) -> Sequence[str] | None:
        """The names of the classes that the column `label` counts."""
        ...

    @property
    def identity(self) -> dict[str, Any] | None:
        """Data for JSON that differ for different sources: after a stop, a packer continues only with the same source.

        None if there are no such data. Then the items are drawn again and compared with the packed samples.
        """
        ...

    @property
    def num_items(self) -> int | None:
        """The number of items, None if it is known only at the end."""
        ...

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        """The kept items, from number `begin` of them on."""
        ...


@dataclass(frozen=True)
class Listed:
    """A source whose items are all known before an image is read. They are files, with paths relative to `root`."""

    kind: str
    root: Path
    listed: Sequence[Item]
    columns: tuple[ColumnType, ...]
    class_names: Sequence[str] | None = None

    @property
    def num_items(self) -> int:
        return len(self.listed)

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of names, columns, sizes and times of the files, without their folder and their content."""
        digest = hashlib.sha256(
            json.dumps([list(self.class_names or ()), [str(type) for type in self.columns]]).encode()
        )
        for item in self.listed:
            columns = {name: _exactly(value) for name, value in item.columns.items()}
            digest.update(json.dumps([item.key, file_identity(self.root, item.image), columns]).encode())
        return {"kind": self.kind, "num_items": self.num_items, "sha256": digest.hexdigest()}

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        return itertools.islice((item for item in self.listed if keep(item.key)), begin, None)

    def shuffled(self, seed: int) -> Listed:
        """The same items in an order that depends only on seed and keys, and not on any version."""
        listed = sorted(self.listed, key=lambda item: drawn_place(seed, item.key))
        return Listed(self.kind, self.root, listed, self.columns, self.class_names)


def drawn_place(seed: int, key: str) -> bytes:
    """The sort key of an item in a shuffled order: a digest of seed and key."""
    return hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=16).digest()


def _exactly(value: Any) -> list[Any]:
    """A column's value with its type, for JSON."""
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, DataError):
        return ["error", value.message]
    array = np.asarray(value)
    return [array.dtype.str, array.shape, array.tobytes().hex()]


def file_identity(root: Path, image: Any) -> list[Any]:
    """A file's path from `root`, size in bytes and time in nanoseconds; only the path if the file cannot be read."""
    path = os.path.relpath(image, root)
    try:
        found = os.stat(image)
    except (OSError, ValueError):
        return [path]
    return [path, found.st_size, found.st_mtime_ns]
