"""Files that list images: lines of `index label... path` from MXNet's im2rec, and CSV with a column of paths."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType, column_names, type_of
from abreast.records.format.keys import KeyMaker
from abreast.records.sources.source import Item, Listed

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LARGEST = float(np.finfo(np.float32).max)
PATH_COLUMNS = ("path", "file", "file_name", "filename", "image")


def from_list(file: Path) -> Listed:
    """Lines of `index label... path`, separated by tabs or blanks. Paths are relative to the list's folder.

    One label is a number, several labels are an array. They are int64 if all are whole numbers, else float32.
    """
    rows = [
        _list_row(file, number, line) for number, line in enumerate(_text(file).split("\n"), start=1) if line.strip()
    ]
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
        file.parent,
        [_list_item(keys, file.parent, path, labels, dtype) for labels, path in rows],
        () if not count else (ColumnType("label", dtype.str, () if count == 1 else (count,)),),
    )


def _text(file: Path) -> str:
    """The text with its line ends unchanged."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {file}: {error}") from None


def _list_row(file: Path, number: int, line: str) -> tuple[list[float], str]:
    first, *rest = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
    try:
        int(first)
        labels, path = [_number(label) for label in rest[:-1]], rest[-1]
        _check_path(path)
        return labels, path
    except (ValueError, IndexError):
        hint = "a line is: index label... path, separated by tabs"
        raise DataError(f"{file}, line {number}: {line!r:.100} is not a line of a list", hint) from None


def _number(label: str) -> float:
    if "_" in label:  # Python allows it between digits
        raise ValueError(label)
    number = float(label)
    if abs(number) > _LARGEST:
        raise ValueError(f"{label} is too large for float32")
    return number


def _check_path(path: str) -> None:
    if not Path(path).name:
        raise ValueError(f"{path!r} names no file")


def _list_item(keys: KeyMaker, root: Path, path: str, labels: Sequence[float], dtype: np.dtype[Any]) -> Item:
    values = np.array(labels, dtype)
    columns = {} if not labels else {"label": values[0] if len(labels) == 1 else values}
    return Item(keys.key(str(Path(path).with_suffix(""))), root / path, columns)


def from_csv(file: Path) -> Listed:
    """Rows below a header. One column has the paths; the others are int64, float64 or text.

    A column has numbers if all of its cells are numbers, as Python writes them.
    """
    table = _table(file)
    header, rows = (table[0] if table else []), [row for row in table[1:] if row]
    where = next((header.index(name) for name in PATH_COLUMNS if name in header), None)
    if where is None:
        raise DataError(
            f"{file} has no column of paths: its columns are {header}", f"name one {' or '.join(PATH_COLUMNS)}"
        )
    if not rows:
        raise DataError(f"{file} has no rows")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise DataError(f"{file}, row {number}: {len(row)} cells under {len(header)} columns")
        if not Path(row[where]).name:
            raise DataError(f"{file}, row {number}: {row[where]!r} names no file", "remove the row, or give its path")
    names = column_names(name for place, name in enumerate(header) if place != where)
    values = [_typed([row[place] for row in rows]) for place in range(len(header)) if place != where]
    keys = KeyMaker()
    items = [
        Item(
            keys.key(str(Path(row[where]).with_suffix(""))),
            file.parent / row[where],
            {name: column[number] for name, column in zip(names, values, strict=True)},
        )
        for number, row in enumerate(rows)
    ]
    columns = tuple(type_of(name, column[0]) for name, column in zip(names, values, strict=True))
    return Listed("csv", file.parent, items, columns)


def _table(file: Path) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(_text(file), newline="")))
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV table: {error}") from None


def _typed(cells: Sequence[str]) -> list[Any]:
    """Numbers, if all cells are numbers and none loses a digit: `007` stays text, and so does a number of 20 digits."""
    if all(_is_whole(cell) for cell in cells):
        return [int(cell) for cell in cells]
    if all(_is_decimal(cell) for cell in cells):
        return [float(cell) for cell in cells]
    return list(cells)


def _is_whole(cell: str) -> bool:
    return _WHOLE.fullmatch(cell) is not None and str(int(cell)) == cell and -(2**63) <= int(cell) < 2**63


def _is_decimal(cell: str) -> bool:
    if not _DECIMAL.fullmatch(cell) or not math.isfinite(float(cell)):
        return False
    return not cell.lstrip("-").isdigit() or str(int(float(cell))) == cell
