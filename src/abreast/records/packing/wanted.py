"""The user's choices for a source: the column of images, the columns to keep, a label, an order, and parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.errors import DataError
from abreast.records.packing.proportions import proportional
from abreast.records.packing.split import Draw, drawn_parts, existing_parts, identity_to_split
from abreast.records.sources.choose import shuffled, source_of
from abreast.records.sources.labels import Label, labelled
from abreast.records.sources.source import ItemSource


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Turn an `OSError` of reading the source into a `DataError`."""
    try:
        yield
    except OSError as error:
        hint = "make it readable, or name another source"
        raise DataError(f"cannot read {error.filename or 'the source'}: {error.strerror or error}", hint) from error


@dataclass(frozen=True)
class Wanted:
    """The user's choices for a source: its column of images, the columns to keep, a label, and an order.

    `stop`: an item without a label is an error before anything is packed.
    """

    image: str | None
    columns: Sequence[str] | None
    label: Label | None
    shuffle_seed: int | None
    stop: bool

    def whole(self, source: Any) -> ItemSource:
        return self._finished({"": source_of(source, self.image, *self._columns())})[""]

    def parts(self, source: Any, names: Sequence[str]) -> dict[str, ItemSource]:
        """The parts that exist in the source, by name."""
        return self._finished(existing_parts(source, names, self.image, *self._columns()))

    def _columns(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        of = () if self.label is None else self.label.columns
        return None if self.columns is None else [*self.columns, *of], of

    def _finished(self, sources: dict[str, ItemSource]) -> dict[str, ItemSource]:
        seed = self.shuffle_seed
        if seed is not None:
            sources = {name: shuffled(source, seed) for name, source in sources.items()}
        return sources if self.label is None else labelled(sources, self.label, self.stop)


def parts_of(
    source: Any, split: Draw | tuple[str, ...], split_by: str | None, wanted: Wanted
) -> tuple[dict[str, ItemSource], list[Any]]:
    """A source for each part, and the settings that identify the split."""
    if isinstance(split, Draw):
        shares = [[name, share] for name, share in split.shares.items()]
        found = wanted.whole(source)
        identity = identity_to_split(found)  # computed once, because it may read every array or file
        draw = split if split_by is None else proportional(found, split, split_by)
        return drawn_parts(found, draw, identity), [split.seed, shares]
    if split_by is not None:
        hint = "write shares to draw parts: train=0.9,val=0.1"
        raise DataError(f"split_by={split_by!r} means nothing for the parts that a source has", hint)
    return wanted.parts(source, split), []
