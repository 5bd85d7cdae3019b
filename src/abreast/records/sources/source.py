"""What every source gives: items in an order that is the same each time.

Imports `columns` and `errors`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from abreast.records.columns import ColumnType


@dataclass(frozen=True)
class Item:
    """An image that is not packed yet: a file, the bytes of one, or pixels (height, width and no, 1 or 3 channels)."""

    key: str
    image: Path | bytes | npt.NDArray[np.uint8]
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
    def identity(self) -> dict[str, Any]:
        """What tells this source from another one, for JSON: a packer goes on with the same source only."""
        ...

    @property
    def num_items(self) -> int | None:
        """None when only reading to the end will tell."""
        ...

    def items(self, begin: int) -> Iterator[Item]:
        """The items from number `begin` on."""
        ...


@dataclass(frozen=True)
class Listed:
    """A source whose items are known before any image is read."""

    kind: str
    listed: Sequence[Item]
    columns: tuple[ColumnType, ...]
    class_names: Sequence[str] | None = None

    @property
    def num_items(self) -> int:
        return len(self.listed)

    @property
    def identity(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for item in self.listed:
            digest.update(json.dumps([item.key, {name: str(item.columns[name]) for name in item.columns}]).encode())
        return {"kind": self.kind, "num_items": self.num_items, "sha256": digest.hexdigest()}

    def items(self, begin: int) -> Iterator[Item]:
        return iter(self.listed[begin:])

    def shuffled(self, seed: int) -> Listed:
        """The same items in an order that depends on seed and keys only, and not on versions of anything."""

        def place(item: Item) -> bytes:
            return hashlib.blake2b(f"{seed}:{item.key}".encode(), digest_size=16).digest()

        return Listed(self.kind, sorted(self.listed, key=place), self.columns, self.class_names)
