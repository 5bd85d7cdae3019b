"""Parquet files that hold images or their paths, and columns. A few rows are in memory at a time."""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.extras import extra
from abreast.records.format.keys import KeyMaker
from abreast.records.sources.arrow import Layout, TableRows, image_of, is_bytes, layout_of
from abreast.records.sources.container import Contained, files_identity
from abreast.records.sources.parquet_file import facts, tables
from abreast.records.sources.source import file_identity

Place = tuple[Path, int]


def from_parquet(
    files: Iterable[Path], image: str | None = None, wanted: Sequence[str] | None = None, label: Sequence[str] = ()
) -> Contained:
    """Rows of files that have the same columns. `image` names the column of images, if it cannot be found automatically."""
    paths = tuple(files)
    found = [facts(path) for path in paths]
    for path, each in zip(paths, found, strict=True):
        if not each.schema.equals(found[0].schema):
            raise DataError(f"{path} has other columns than {paths[0]}", "pack files with different columns separately")
    schema = found[0].schema
    layout = layout_of(schema, image, wanted, label)
    kinds = extra("pyarrow").types
    is_path = not kinds.is_struct(schema.field(layout.image).type) and not is_bytes(schema.field(layout.image).type)
    paths_in = layout.image if is_path else f"{layout.image}.path"
    named = is_path or any(f"{layout.image}.bytes" in each.may_be_null for each in found)
    groups = tuple(each.groups for each in found)
    container = _Parquet(paths, groups, layout, is_path, paths_in if named else None)
    return Contained(container, layout.columns, sum(map(sum, groups)), layout.names, is_sequential=True)


@dataclass(frozen=True)
class _Parquet:
    """Parquet files as a container. `groups`: rows in each row group of each file. `is_path`: images are only paths.

    `paths_in` is the column that may have paths, None without one.
    """

    files: tuple[Path, ...]
    groups: tuple[tuple[int, ...], ...]
    layout: Layout
    is_path: bool
    paths_in: str | None
    kind: str = "parquet"

    def identity(self) -> list[Any]:
        """The identities of the files, and of the images that they name."""
        named = [] if self.paths_in is None else [file_identity(*found) for found in self._paths(self.paths_in)]
        return [self.layout.image, files_identity(self.files), named]

    def places(self) -> Iterator[tuple[str, Place]]:
        keys = KeyMaker()
        if self.is_path:
            paths = self._paths(self.layout.image)
            for path, groups in zip(self.files, self.groups, strict=True):
                for row in range(sum(groups)):
                    root, image = next(paths)
                    yield keys.key(_relative(root, image)), (path, row)
            return
        for path, groups in zip(self.files, self.groups, strict=True):
            stem = keys.key(path.stem)
            yield from ((f"{stem}/{row:08d}", (path, row)) for row in range(sum(groups)))

    def values(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The key and these columns of each row."""
        keys = self.places()
        for path in self.files:
            for batch in tables(path, 0, self.layout.stored(names)):
                rows = TableRows(batch, self.layout, path.parent)
                yield from ((next(keys)[0], rows.columns(row)) for row in range(batch.num_rows))

    def _paths(self, column: str) -> Iterator[tuple[Path, Path]]:
        """The base folder of paths and the image's path, for each row; the folder twice for a row without a path."""
        for path in self.files:
            for batch in tables(path, 0, [column]):
                for value in batch.column(0):
                    image: Any = path.parent
                    with contextlib.suppress(DataError):
                        image = image_of(value, path.parent)
                    yield path.parent, image

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Place], tuple[Any, Mapping[str, Any]]]]:
        cursor = _Cursor(self.layout, dict(zip(self.files, self.groups, strict=True)))
        try:
            yield lambda place: cursor.row(*place)
        finally:
            cursor.close()


def _relative(root: Path, image: Path) -> str:
    plain = image.with_suffix("") if image.name else image
    return str(plain.relative_to(root)) if plain.is_relative_to(root) else str(plain)


class _Cursor:
    """Reads rows in their order. A step back reads a row group again."""

    def __init__(self, layout: Layout, groups: Mapping[Path, Sequence[int]]) -> None:
        self._layout = layout
        self._groups = groups
        self._path: Path | None = None
        self._batches: Iterator[Any] = iter(())
        self._begin = self._end = 0
        self._rows: TableRows | None = None

    def row(self, path: Path, number: int) -> tuple[Any, dict[str, Any]]:
        if path != self._path or number < self._begin:
            self._begin = self._end = _group_begin(self._groups[path], number)
            self._batches = tables(path, self._begin, [self._layout.image, *self._layout.types])
            self._path = path
        while number >= self._end:
            batch = next(self._batches, None)
            if batch is None:
                raise DataError(f"{path} has no row {number}: it changed while it was read")
            self._begin, self._end = self._end, self._end + batch.num_rows
            self._rows = TableRows(batch, self._layout, path.parent)
        assert self._rows is not None
        return self._rows.row(number - self._begin)

    def close(self) -> None:
        self._batches, self._rows, self._path = iter(()), None, None


def _group_begin(groups: Sequence[int], row: int) -> int:
    """The first row of the row group that contains `row`."""
    begins = [0, *itertools.accumulate(groups)]
    return begins[bisect.bisect_right(begins, row) - 1]
