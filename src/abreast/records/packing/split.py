"""Parts of a source, such as `train` and `val`, drawn by key or found in the source. Each becomes a data set."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType
from abreast.records.format.keys import is_key
from abreast.records.sources.choose import files_of_part, source_of
from abreast.records.sources.source import Item, ItemSource, Keep, Listed, everything

_HINT = "write train=0.9,val=0.1 to draw parts, or train,val for parts that the source has"


class Parts(Protocol):
    """Parts with their shares."""

    @property
    def shares(self) -> Mapping[str, float]: ...

    def part(self, key: str) -> str:
        """The part of an item with this key."""
        ...


@dataclass(frozen=True)
class Draw:
    """Draws the part of each key, as a function of seed and key alone.

    So an image stays in its part when other images are added, but a part gets only approximately its share of the images.
    """

    shares: Mapping[str, float]
    seed: int = 0

    def part(self, key: str) -> str:
        digest = hashlib.blake2b(f"split:{self.seed}:{key}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        for name, share in self.shares.items():
            if place < share:
                return name
            place -= share
        return name  # rounding can leave the sum of the shares below `place`


def split_of(split: str | Mapping[str, float] | Sequence[str], seed: int = 0) -> Draw | tuple[str, ...]:
    """The parts to draw, or the names of existing parts. Raises `DataError` for an invalid split."""
    if isinstance(split, str):
        words = [word.strip() for word in split.split(",")]
        split = _shares(words) if "=" in split else words
    names = tuple(split)
    bad = [name for name in names if not is_key(str(name)) or "/" in name]
    if bad or not names or len(set(names)) != len(names):
        raise DataError(f"these are not valid names of parts: {', '.join(map(repr, names)) or 'none'}", _HINT)
    if not isinstance(split, Mapping):
        return names
    shares = {name: float(share) for name, share in split.items()}
    if not all(0 < share < math.inf for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
        hint = "give shares above 0 whose sum is 1; name a part for the images that you do not need"
        raise DataError(
            f"these are not valid shares: {', '.join(f'{name}={share:g}' for name, share in shares.items())}", hint
        )
    return Draw(shares, seed)


def _shares(words: Sequence[str]) -> dict[str, float]:
    try:
        pairs = [word.split("=") for word in words]
        shares = {name: float(share) for name, share in pairs}
    except ValueError:
        raise DataError(f"this is not a valid split: {','.join(words)!r:.100}", _HINT) from None
    if len(shares) != len(pairs):
        raise DataError(f"a part is named twice in {','.join(words)!r:.100}", _HINT)
    return shares


@dataclass(frozen=True)
class DrawnPart:
    """The items of a source that a draw gives to one part."""

    source: ItemSource
    draw: Parts
    name: str
    columns: tuple[ColumnType, ...] | None
    class_names: Sequence[str] | None
    names: Mapping[str, Sequence[str]]  # as in `Contained`
    identity: dict[str, Any]

    @property
    def num_items(self) -> int | None:
        return sum(1 for _ in self.items(0)) if isinstance(self.source, Listed) else None

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        return self.source.items(begin, lambda key: self.draw.part(key) == self.name and keep(key))


def drawn_parts(source: ItemSource, draw: Parts, identity: dict[str, Any]) -> dict[str, ItemSource]:
    """A source for each part. `identity` is the whole source's."""
    facts = source.columns, source.class_names, getattr(source, "names", {}), identity
    return {name: DrawnPart(source, draw, name, *facts) for name in draw.shares}


def identity_to_split(source: ItemSource) -> dict[str, Any]:
    """The source's identity. Raises `DataError` for an iterable, which may not give the same samples again."""
    identity = source.identity
    if identity is None:
        hint = "give files, arrays or a data set, or pack each part by itself"
        raise DataError("an iterable cannot be split, because it may not give the same samples again", hint)
    return identity


def existing_parts(
    source: Any,
    names: Sequence[str],
    image: str | None = None,
    wanted: Sequence[str] | None = None,
    label: Sequence[str] = (),
) -> dict[str, ItemSource]:
    """The parts that `source` has: folders or files of these names in a folder, or entries of a dictionary."""
    parts: dict[str, ItemSource] = {}
    for name in names:
        if isinstance(source, str | PathLike) and Path(fspath(source)).is_dir():
            parts[name] = source_of(files_of_part(Path(fspath(source)), name, names), image, wanted, label)
        elif isinstance(source, Mapping):
            if name not in source:
                raise DataError(f"there is no part {name!r}", f"the parts are: {', '.join(map(str, source))}")
            parts[name] = source_of(source[name], image, wanted, label)
        else:
            hint = "write shares to draw parts: train=0.9,val=0.1"
            raise DataError(f"only a folder or a dictionary can have parts named {', '.join(names)}", hint)
    _check_classes(parts)
    return parts


def _check_classes(parts: Mapping[str, ItemSource]) -> None:
    """Raise `DataError` unless all parts have the same classes, so that a number means the same class in each."""
    (first, found), *others = [(name, list(part.class_names or ())) for name, part in parts.items()]
    for name, classes in others:
        if classes != found:
            only = sorted({*classes} ^ {*found})
            hint = "give each part the same classes, if necessary with an empty folder"
            raise DataError(f"{first} and {name} have different classes: {', '.join(map(repr, only[:5]))}", hint)
