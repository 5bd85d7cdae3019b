"""Parquet files, a few rows in memory at a time: of paths and columns, or of the bytes of images and columns.

Imports `arrow`, `container`, `keys`, `extras` and `errors`; pyarrow when a file is opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.extras import extra
from abreast.records.keys import KeyMaker
from abreast.records.sources.arrow import Layout, Rows, image_of, is_bytes, layout_of
from abreast.records.sources.container import Contained, files_identity
from abreast.records.sources.source import file_identity

_ROWS_AT_ONCE = 64

Place = tuple[Path, int]


def from_parquet(files: Iterable[Path], image: str | None = None, wanted: Sequence[str] | None = None) -> Contained:
    """Rows of files that have the same columns; `image` is the one with the images, where it cannot be told."""
    paths = tuple(files)
    counts: list[int] = []
    schema: Any = None
    for path in paths:
        with _opened(path) as file:
            if schema is not None and not file.schema_arrow.equals(schema):
                raise DataError(f"{path} has other columns than {paths[0]}", "pack files of one kind by themselves")
            schema = file.schema_arrow
            counts.append(file.metadata.num_rows)
    layout = layout_of(schema, image, wanted)
    kinds = extra("pyarrow").types
    is_path = not kinds.is_struct(schema.field(layout.image).type) and not is_bytes(schema.field(layout.image).type)
    paths_in = layout.image if is_path else f"{layout.image}.path"
    named = is_path or any(_has_nulls(path, f"{layout.image}.bytes") for path in paths)
    return Contained.of(_Parquet(paths, tuple(counts), layout, is_path, paths_in if named else None), layout.columns)


def _has_nulls(path: Path, column: str) -> bool:
    """Whether a column may have rows without a value, as far as the file says."""
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            chunks = file.metadata.row_group(group)
            for chunk in (chunks.column(i) for i in range(chunks.num_columns)):
                if chunk.path_in_schema == column and (chunk.statistics is None or chunk.statistics.null_count):
                    return True
    return False


@dataclass(frozen=True)
class _Parquet:
    """`counts` are the rows of each file; `is_path` where images are only named; `paths_in` is the column of names, if any."""

    files: tuple[Path, ...]
    counts: tuple[int, ...]
    layout: Layout
    is_path: bool
    paths_in: str | None
    kind: str = "parquet"
    is_sequential: bool = True

    @property
    def num_items(self) -> int:
        return sum(self.counts)

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        return self.layout.names

    def identity(self) -> list[Any]:
        """Of the files, and of the images that they name."""
        named = [] if self.paths_in is None else [file_identity(*found) for found in self._paths(self.paths_in)]
        return [self.layout.image, files_identity(self.files), named]

    def places(self) -> Iterator[tuple[str, Place]]:
        keys = KeyMaker()
        if self.is_path:
            paths = self._paths(self.layout.image)
            for path, count in zip(self.files, self.counts, strict=True):
                for row in range(count):
                    root, image = next(paths)
                    yield keys.key(_relative(root, image)), (path, row)
            return
        for path, count in zip(self.files, self.counts, strict=True):
            stem = keys.key(path.stem)
            yield from ((f"{stem}/{row:08d}", (path, row)) for row in range(count))

    def _paths(self, column: str) -> Iterator[tuple[Path, Path]]:
        """The folder that paths count from, with the path that each row names; for a row without one, the folder."""
        for path in self.files:
            for batch in _batches(path, 0, [column]):
                for value in batch.column(0):
                    image: Any = path.parent
                    with contextlib.suppress(DataError):
                        image = image_of(value, path.parent)
                    yield path.parent, image

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Place], tuple[Any, Mapping[str, Any]]]]:
        cursor = _Cursor(self.layout)
        try:
            yield lambda place: cursor.row(*place)
        finally:
            cursor.close()


def _relative(root: Path, image: Path) -> str:
    plain = image.with_suffix("") if image.name else image
    return str(plain.relative_to(root)) if plain.is_relative_to(root) else str(plain)


class _Cursor:
    """Rows in their order; going back to an earlier one reads its row group again."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._path: Path | None = None
        self._batches: Iterator[Any] = iter(())
        self._begin = self._end = 0
        self._rows: Rows | None = None

    def row(self, path: Path, number: int) -> tuple[Any, dict[str, Any]]:
        if path != self._path or number < self._begin:
            self._begin = self._end = _group_begin(path, number)
            self._batches = _batches(path, self._begin, [self._layout.image, *self._layout.types])
            self._path = path
        while number >= self._end:
            batch = next(self._batches, None)
            if batch is None:
                raise DataError(f"{path} has no row {number}: it changed while it was read")
            self._begin, self._end = self._end, self._end + batch.num_rows
            self._rows = Rows(batch, self._layout, path.parent)
        assert self._rows is not None
        return self._rows.row(number - self._begin)

    def close(self) -> None:
        self._batches, self._rows, self._path = iter(()), None, None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open file, of which only what is asked for is read. Raises `DataError` for what pyarrow says meanwhile."""
    pyarrow = extra("pyarrow")
    try:
        with extra("pyarrow.parquet").ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        hint = "take the file from a copy, or make it again"
        raise DataError(f"cannot read {path}: {str(error).partition(chr(10))[0]:.200}", hint) from None


def _group_begin(path: Path, row: int) -> int:
    """The first row of the group that has this one."""
    begin = 0
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if row < begin + size:
                break
            begin += size
    return begin


def _batches(path: Path, begin: int, columns: Sequence[str]) -> Iterator[Any]:
    """Tables of a few rows each, from row `begin` on, which is the first of a group."""
    pyarrow = extra("pyarrow")
    with _opened(path) as file:
        groups, row = [], 0
        for group in range(file.num_row_groups):
            if row >= begin:
                groups.append(group)
            row += file.metadata.row_group(group).num_rows
        for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=groups, columns=list(columns), use_threads=False):
            yield pyarrow.Table.from_batches([batch])
