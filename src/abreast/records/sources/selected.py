"""A source with only some of its columns, which may be renamed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType
from abreast.records.sources.source import Item, ItemSource, Keep, everything


def selection(columns: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """The source's column names by their new names, from `label=fine_label,text`, a list, or a dictionary."""
    if isinstance(columns, Mapping):
        return dict(columns)
    names = [name for name in columns.split(",") if name] if isinstance(columns, str) else columns
    pairs = [name.partition("=") for name in names]
    return {new.strip(): (old or new).strip() for new, _, old in pairs}


@dataclass(frozen=True)
class Selected:
    """A source with selected columns. `names` has the source's name of each column by its new name."""

    source: ItemSource
    names: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.source.columns is not None:
            have = [column.name for column in self.source.columns]
            for name in self.names.values():
                if name not in have:
                    raise missing(name, have)

    @property
    def columns(self) -> tuple[ColumnType, ...] | None:
        if self.source.columns is None:
            return None
        types = {column.name: column for column in self.source.columns}
        return tuple(replace(types[old], name=new) for new, old in self.names.items())

    @property
    def class_names(self) -> Sequence[str] | None:
        old = self.names.get("label")
        if old == "label":
            return self.source.class_names
        names: Mapping[str, Sequence[str]] = getattr(self.source, "names", {})
        return names.get(old) if old is not None else None

    @property
    def identity(self) -> dict[str, Any] | None:
        return self.source.identity

    @property
    def num_items(self) -> int | None:
        return self.source.num_items

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        for item in self.source.items(begin, keep):
            yield replace(item, columns={new: _value(item, old) for new, old in self.names.items()})


def _value(item: Item, name: str) -> Any:
    return item.columns[name] if name in item.columns else missing(name, list(item.columns))


def missing(name: str, have: Collection[str]) -> DataError:
    """The error for a column that a source does not have."""
    return DataError(f"there is no column {name!r}", f"there are: {', '.join(have) or 'none'}")
