"""Files that list images: `index label... path` as MXNet's im2rec writes it, and CSV with a column of paths.

Imports `source`, `columns` and `errors`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.columns import ColumnType, type_of
from abreast.records.keys import KeyMaker
from abreast.records.sources.source import Item, Listed

PATH_COLUMNS = ("path", "file", "file_name", "filename", "image")


def from_list(file: Path, root: Path | None = None) -> Listed:
    """Lines of `index label... path`, between tabs or blanks; paths count from `root`, or from the list's folder.

    One label is a number, several are an array of one length. They are int64 when all are whole, else float32.
    """
    rows = [_list_row(file, number, line) for number, line in enumerate(_lines(file), start=1) if line.strip()]
    if not rows:
        raise DataError(f"{file} lists no image", "a line is: index label... path")
    lengths = {len(labels) for labels, _ in rows}
    if len(lengths) > 1:
        raise DataError(f"the lines of {file} have different numbers of labels: {sorted(lengths)[:5]}")
    whole = all(label.is_integer() and abs(label) < 2**53 for labels, _ in rows for label in labels)
    dtype = np.dtype("<i8" if whole else "<f4")
    count = lengths.pop()
    keys = KeyMaker()
    return Listed(
        "list",
        [_list_item(keys, root or file.parent, path, labels, dtype) for labels, path in rows],
        () if not count else (ColumnType("label", dtype.str, () if count == 1 else (count,)),),
    )


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {file}: {error}") from None


def _list_row(file: Path, number: int, line: str) -> tuple[list[float], str]:
    first, *rest = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
    try:
        int(first)
        return [float(label) for label in rest[:-1]], rest[-1]
    except (ValueError, IndexError):
        hint = "a line is: index label... path, between tabs"
        raise DataError(f"{file}, line {number}: {line!r:.100} is not a line of a list", hint) from None


def _list_item(keys: KeyMaker, root: Path, path: str, labels: Sequence[float], dtype: np.dtype[Any]) -> Item:
    values = np.array(labels, dtype)
    columns = {} if not labels else {"label": values[0] if len(labels) == 1 else values}
    return Item(keys.key(str(Path(path).with_suffix(""))), root / path, columns)


def from_csv(file: Path, root: Path | None = None) -> Listed:
    """Rows with a header; one column has the paths, and the others are int64, float64 or text, as all their rows are."""
    table = list(csv.reader(_lines(file)))
    header, rows = (table[0] if table else []), [row for row in table[1:] if row]
    where = next((header.index(name) for name in PATH_COLUMNS if name in header), None)
    if where is None:
        raise DataError(
            f"{file} has no column of paths: its columns are {header}", f"call one {' or '.join(PATH_COLUMNS)}"
        )
    if not rows:
        raise DataError(f"{file} has no rows")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise DataError(f"{file}, row {number}: {len(row)} cells under {len(header)} columns")
    names = [name for place, name in enumerate(header) if place != where]
    values = [_typed([row[place] for row in rows]) for place in range(len(header)) if place != where]
    keys = KeyMaker()
    items = [
        Item(
            keys.key(str(Path(row[where]).with_suffix(""))),
            (root or file.parent) / row[where],
            {name: column[number] for name, column in zip(names, values, strict=True)},
        )
        for number, row in enumerate(rows)
    ]
    return Listed("csv", items, tuple(type_of(name, column[0]) for name, column in zip(names, values, strict=True)))


def _typed(cells: Sequence[str]) -> list[Any]:
    for kind in (int, float):
        try:
            values = [kind(cell) for cell in cells]
        except ValueError:
            continue
        if kind is float or all(-(2**63) <= value < 2**63 for value in values):
            return values
    return list(cells)
