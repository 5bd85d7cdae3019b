"""Data sets of Hugging Face's `datasets`: images in stored form, classes, and columns.

An object is recognized by the module of its class, so that `datasets` is never imported here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import DataError, a_type
from abreast.records.extras import extra
from abreast.records.sources.arrow import Layout, TableRows, layout_of
from abreast.records.sources.container import Contained

_ROWS_AT_ONCE = 64


def is_datasets(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "datasets"


def from_datasets(
    source: Any, image: str | None = None, wanted: Sequence[str] | None = None, label: Sequence[str] = ()
) -> Contained:
    """Rows of a `Dataset`, in its order. Raises `DataError` for a dictionary of splits, and for a stream."""
    extra("pyarrow")
    if isinstance(source, Mapping):
        hint = f"give one of them, or pack all of them: split={','.join(map(str, source))!r}"
        raise DataError(f"{a_type(source)} has the splits {', '.join(map(str, source))}", hint)
    if not hasattr(source, "with_format") or not hasattr(source, "__len__"):
        raise DataError(f"cannot pack {a_type(source)}", "load the data set without streaming=True")
    rows = source.with_format("arrow")
    layout = layout_of(source.features.arrow_schema, image, wanted, label)
    return Contained(_HuggingFace(rows, str(source._fingerprint), layout), layout.columns, len(rows), layout.names)


@dataclass(frozen=True)
class _HuggingFace:
    """A data set of `datasets` as a container; `rows[a:b]` is an Arrow table."""

    rows: Any
    fingerprint: str
    layout: Layout
    kind: str = "huggingface"

    def identity(self) -> list[Any]:
        """The fingerprint, which `datasets` changes with every change of a data set."""
        return [self.layout.image, self.fingerprint, len(self.rows)]

    def places(self) -> Iterator[tuple[str, int]]:
        return ((f"{row:08d}", row) for row in range(len(self.rows)))

    def values(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The key and these columns of each row."""
        # A shuffled data set copies the rows that it gives, with the images in them.
        chosen = self.rows.select_columns(self.layout.stored(names))
        keys = self.places()
        for begin in range(0, len(self.rows), _ROWS_AT_ONCE):
            table = chosen[begin : begin + _ROWS_AT_ONCE]
            rows = TableRows(table, self.layout, Path())
            yield from ((next(keys)[0], rows.columns(row)) for row in range(table.num_rows))

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[int], tuple[Any, Mapping[str, Any]]]]:
        kept: dict[int, TableRows] = {}

        def read(row: int) -> tuple[Any, Mapping[str, Any]]:
            begin = row - row % _ROWS_AT_ONCE
            if begin not in kept:
                kept.clear()
                table = self.rows[begin : begin + _ROWS_AT_ONCE]
                kept[begin] = TableRows(table, self.layout, Path())
            return kept[begin].row(row - begin)

        yield read
