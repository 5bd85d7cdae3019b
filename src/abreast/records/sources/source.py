"""What every source gives: items in an order that is the same each time.

Imports `columns` and `errors`.
"""

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

Keep = Callable[[str], bool]  # whether an item with this key is wanted


def everything(key: str) -> bool:
    return True


@dataclass(frozen=True)
class Item:
    """An image that is not packed yet: a file, the bytes of one, or pixels (height, width and no, 1 or 3 channels).

    An error in place of the image, or of a column's value, says why there is none; it is raised where the item is packed.
    """

    key: str
    image: Path | bytes | npt.NDArray[np.uint8] | DataError
    columns: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Items and what is known about them beforehand."""

    @property
    def columns(self) -> tuple[ColumnType, ...] | None:
        """Their types; None when the first item is to say."""
        ...

    @property
    def class_names(self) -> Sequence[str] | None:
        """What the numbers of the column `label` mean."""
        ...

    @property
    def identity(self) -> dict[str, Any] | None:
        """What tells this source from another one, for JSON: a packer goes on with the same source only.

        None when nothing does: then what is drawn again is compared with what is packed.
        """
        ...

    @property
    def num_items(self) -> int | None:
        """None when only reading to the end will tell."""
        ...

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        """Of the items that are kept those from number `begin` on."""
        ...


@dataclass(frozen=True)
class Listed:
    """A source whose items, files below or beside `root`, are known before any image is read."""

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
        """Of names, columns, sizes and times of the files; where they lie does not count, nor what is in them."""
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
        """The same items in an order that depends on seed and keys only, and not on versions of anything."""
        listed = sorted(self.listed, key=lambda item: drawn_place(seed, item.key))
        return Listed(self.kind, self.root, listed, self.columns, self.class_names)


def drawn_place(seed: int, key: str) -> bytes:
    """Where a shuffled order has the item: a digest of its own."""
    return hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=16).digest()


def _exactly(value: Any) -> list[Any]:
    """A value of a column with its type, for JSON."""
    if isinstance(value, str):
        return ["text", value]
    array = np.asarray(value)
    return [array.dtype.str, array.shape, array.tobytes().hex()]


def file_identity(root: Path, image: Any) -> list[Any]:
    """Path from `root`, size in bytes and time in nanoseconds of a file; only the path of one that cannot be asked."""
    path = os.path.relpath(image, root)
    try:
        found = os.stat(image)
    except (OSError, ValueError):
        return [path]
    return [path, found.st_size, found.st_mtime_ns]
