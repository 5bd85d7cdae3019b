"""A contact sheet: pictures of samples, each with its key and label; or a row of each sample's views, as in training."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import Pixels
from abreast.records.extras import extra
from abreast.records.format.keys import printable
from abreast.records.loading.assembly import Assembly, Look
from abreast.records.loading.draws import checked_seed, permutation
from abreast.records.loading.views import CenterCrop, RandomCrop
from abreast.records.reading.reader import Numbers, Records, Sample, meant, text_names
from abreast.records.reading.sizes import Sizes
from abreast.records.sources.labels import LABEL
from abreast.stderr import tell

SIZE = 128  # pixels of a picture's side
_COUNT = 24  # number of samples
_COUNT_OF_ROWS = 6  # number of samples if each has a row of views
_COLUMNS, _VIEWS = 6, 8
_GAP, _LINE = 4, 14  # pixels
_LETTERS = 11  # height in pixels
_WHITE, _BLACK = 255, 0


def write_sheet(
    folder: str | PathLike[str],
    path: str | PathLike[str],
    seed: int = 0,
    count: int | None = None,
    size: int = SIZE,
    augment: bool = False,
    label: str | None = None,
) -> int:
    """Write the picture, in the format of the name's extension. Returns the number of samples. Raises `DataError`.

    `size` is the side of each picture in pixels. `augment` adds random views of each sample. `label` is the column to show:
    by default `label`, or the only column of words.
    """
    if count is None:
        count = _COUNT_OF_ROWS if augment else _COUNT
    if count < 1:
        raise DataError(f"--count {count} is not allowed", "give a number above 0")
    if not 16 <= size <= 2048:
        raise DataError(f"--size {size} is not allowed", "give 16 to 2048 pixels")
    with Records(folder) as records:
        if not len(records):
            raise DataError(f"{records.folder} is empty", "pack at least one image")
        column = _shown_column(records, label)
        numbers = permutation(checked_seed(seed), 0, len(records))[:count]
        views = _views(records, numbers, seed, size, _VIEWS if augment else 1)
        samples = map(records.sample, numbers.tolist())
        lines = [(printable(sample.key), _label(records, sample, column)) for sample in samples]
    _write(_sheet(views, lines, size), Path(fspath(path)))
    return len(numbers)


def _views(records: Records, numbers: Numbers, seed: int, size: int, num_views: int) -> list[Pixels]:
    """The largest centre of each sample, then random views of it; one array of all samples for each."""
    centre, drawn = (
        Assembly(Sizes(records), Look((size, size), view, True), None, None, len(numbers), num_views + 1)
        for view in (CenterCrop(1.0), RandomCrop())
    )
    return [centre.make(numbers, seed, 0, 0), *(drawn.make(numbers, seed, epoch, 0) for epoch in range(1, num_views))]


def _shown_column(records: Records, label: str | None) -> str:
    """The column that the sheet shows. Raises `DataError` for an unknown one."""
    names = [column.name for column in records.columns]
    if label is not None and label not in names:
        hint = f"{meant(label, names)}columns: {', '.join(names) or 'none'}"
        raise DataError(f"{records.folder} has no column {label!r}", hint)
    words = text_names(records)
    if label is None and LABEL not in names and len(words) > 1:
        tell(f"{records.folder} has no column {LABEL!r}, and several of words\nhint: --label {words[0]} shows that one")
    return label or (words[0] if LABEL not in names and len(words) == 1 else LABEL)


def _label(records: Records, sample: Sample, column: str = LABEL) -> str:
    """The value of the column in words, as far as it has names; empty without the column."""
    value = sample.columns.get(column)
    names = records.class_names if column == LABEL else None
    if value is None:
        return ""
    if isinstance(value, str | bytes):
        return printable(value if isinstance(value, str) else repr(value))
    array = np.asarray(value)
    if names is None or array.ndim > 1:
        return str(array.tolist())
    if not array.ndim:
        return printable(names[int(array)]) if 0 <= array < len(names) and array == int(array) else str(array)
    if array.size == len(names):
        return printable(", ".join(_place(name, of) for name, of in zip(names, array.tolist(), strict=True) if of))
    return str(array.tolist())


def _place(name: str, value: float) -> str:
    return name if value == 1 else f"{name} {value:g}"


def _sheet(views: Sequence[Pixels], lines: Sequence[tuple[str, str]], size: int) -> Any:
    """A Pillow image with a place for each sample: its views side by side, and the lines below."""
    wide, high = len(views) * (size + _GAP), size + 2 * _LINE + _GAP
    columns = 1 if len(views) > 1 else min(_COLUMNS, len(lines))
    rows = -(-len(lines) // columns)
    mode = "L" if views[0].shape[3] == 1 else "RGB"
    white = _WHITE if mode == "L" else (_WHITE,) * 3
    sheet = extra("PIL.Image").new(mode, (columns * wide + _GAP, rows * high + _GAP), white)
    for place, texts in enumerate(lines):
        left, top = _GAP + place % columns * wide, _GAP + place // columns * high
        for number, of in enumerate(views):
            pixels = of[place][:, :, 0] if mode == "L" else of[place]
            sheet.paste(extra("PIL.Image").fromarray(pixels), (left + number * (size + _GAP), top))
        for number, text in enumerate(texts):
            _draw(sheet, text, left, top + size + number * _LINE, wide - _GAP)
    return sheet


def _draw(sheet: Any, text: str, left: int, top: int, width: int) -> None:
    """Draw a line of text, with dots in its middle if it is too long. The end of a key differs from other keys'."""
    draw = extra("PIL.ImageDraw").Draw(sheet)
    font = extra("PIL.ImageFont").load_default(_LETTERS)
    shown, kept = text, len(text)
    while kept > 2 and draw.textlength(shown, font=font) > width:
        kept -= 1
        shown = f"{text[: kept // 2]}...{text[len(text) - (kept - kept // 2) :]}"
    draw.text((left, top), shown, fill=_BLACK if sheet.mode == "L" else (_BLACK,) * 3, font=font)


def _write(sheet: Any, target: Path) -> None:
    try:
        sheet.save(target)
    except (OSError, ValueError) as error:
        hint = "name a file such as sheet.png, in a folder that exists"
        raise DataError(f"cannot write {target}: {error}", hint) from None
