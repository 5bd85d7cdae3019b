"""One pass over the columns of a source, before anything is packed. Images are read only if the kind of source needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from abreast.errors import DataError
from abreast.records.sources.arrays import Arrays
from abreast.records.sources.container import Contained, Container
from abreast.records.sources.source import ItemSource, Listed


def columns_of(source: ItemSource, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and columns of each item, with at least the columns `names`. An item that cannot be read is left out."""
    if isinstance(source, Contained):
        yield from columns_in(source.container, names)
        return
    for item in source.items(0):
        yield item.key, item.columns


def columns_in(container: Container, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and columns of each item of a container. An item that cannot be read is left out."""
    if (values := getattr(container, "values", None)) is not None:
        yield from values(names)
        return
    with container.opened() as read:
        for key, place in container.places():
            try:
                yield key, read(place)[1]
            except DataError:  # raised again when the item is packed
                continue


def is_quick(source: ItemSource) -> bool:
    """True if the pass reads no images."""
    return isinstance(source, Listed | Arrays) or (
        isinstance(source, Contained) and hasattr(source.container, "values")
    )
