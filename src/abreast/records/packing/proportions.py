"""The draw of `split_by`: in each part, each class has its share.

Images are put in an order: class by class, and at random within a class. Then each image goes to the part that lacks most of
its share of the images so far. So every range of that order, and therefore every class, is divided by the shares to within about
one image, and so are all images together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.format.keys import printable
from abreast.records.packing.split import Draw
from abreast.records.sources.scan import columns_of
from abreast.records.sources.source import ItemSource, drawn_place
from abreast.records.sources.words import are_too_many
from abreast.stderr import tell


@dataclass(frozen=True)
class Proportions:
    """The part of each key."""

    shares: Mapping[str, float]
    parts: Mapping[str, str]

    def part(self, key: str) -> str:
        """The part of an item with this key. An item that cannot be read has no class, and goes to the first part."""
        return self.parts.get(key, next(iter(self.shares)))


def proportional(source: ItemSource, draw: Draw, column: str) -> Proportions:
    """The parts of a source by the values of a column. Raises `DataError` for a column that does not hold classes.

    The source must give the same items again: see `identity_to_split`.
    """
    have = [type.name for type in source.columns or ()]
    if column not in have:
        raise DataError(f"there is no column {column!r} to split by", f"there are: {', '.join(have) or 'none'}")
    classes = {key: _class(columns.get(column)) for key, columns in columns_of(source, [column])}
    _check_classes(column, classes)
    order = sorted(classes, key=lambda key: (classes[key], drawn_place(draw.seed, key)))
    found = Proportions(draw.shares, dict(zip(order, dealt(draw.shares, len(order)), strict=True)))
    _tell_of_gaps(column, found, classes)
    return found


def _class(value: Any) -> str:
    """A text for the class of a value; equal values have equal texts. Each different set of tags is one class."""
    return value.message if isinstance(value, DataError) else repr(np.asarray(value).tolist())


def _check_classes(column: str, classes: Mapping[str, str]) -> None:
    different = len({*classes.values()})
    if are_too_many(different, len(classes)):
        hint = "name a column of classes, such as label"
        raise DataError(f"column {column!r} has {different:,} different values for {len(classes):,} images", hint)


def dealt(shares: Mapping[str, float], count: int) -> Iterable[str]:
    """A part for each of `count` images. Each prefix of the list is divided by the shares as closely as possible."""
    given = dict.fromkeys(shares, 0)
    for number in range(1, count + 1):
        name = max(shares, key=lambda part: round(shares[part] * number - given[part], 9))  # 9: ties are exact
        given[name] += 1
        yield name


def _tell_of_gaps(column: str, found: Proportions, classes: Mapping[str, str]) -> None:
    counts = Counter(classes.values())
    for part in found.shares:
        there = {classes[key] for key, name in found.parts.items() if name == part}
        lacking = sorted(counts.keys() - there)
        if lacking:
            first = f"{printable(lacking[0])} ({counts[lacking[0]]} in all)"
            tell(
                f"split by {column}: part {part} has no image of {len(lacking):,} of {len(counts):,} classes, as {first}"
            )
