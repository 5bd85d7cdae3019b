"""A contact sheet with a row per sample: first its centre, then views of it as training sees them."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import Pixels
from abreast.records.extras import extra
from abreast.records.loading.assembly import Assembly, Look
from abreast.records.loading.draws import checked_seed, permutation
from abreast.records.loading.views import CenterCrop, RandomCrop
from abreast.records.reading.reader import Numbers, Records
from abreast.records.reading.sizes import Sizes

_SIDE, _GAP = 128, 4  # pixels
_WHITE = 255


def write_sheet(
    folder: str | PathLike[str], path: str | PathLike[str], seed: int = 0, rows: int = 6, columns: int = 8
) -> int:
    """Write the picture, in the format of the name's extension. Returns the number of samples. Raises `DataError`."""
    with Records(folder) as records:
        if not len(records):
            raise DataError(f"{records.folder} is empty", "pack at least one image")
        numbers = permutation(checked_seed(seed), 0, len(records))[:rows]
        sheet = _sheet(records, numbers, seed, columns)
    target = Path(fspath(path))
    try:
        pixels = sheet if sheet.shape[2] == 3 else sheet[:, :, 0]
        extra("PIL.Image").fromarray(pixels).save(target)
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot write {target}: {error}", "name a file such as sheet.png, in a folder that exists"
        ) from None
    return len(numbers)


def _sheet(records: Records, numbers: Numbers, seed: int, columns: int) -> Pixels:
    centre, drawn = (
        Assembly(Sizes(records), Look((_SIDE, _SIDE), view, True), None, None, len(numbers), columns)
        for view in (CenterCrop(1.0), RandomCrop())
    )
    views = [centre.make(numbers, seed, 0, 0), *(drawn.make(numbers, seed, epoch, 0) for epoch in range(1, columns))]
    sheet = np.full(
        (len(numbers) * (_SIDE + _GAP) + _GAP, columns * (_SIDE + _GAP) + _GAP, centre.batches.image_shape[2]),
        _WHITE,
        np.uint8,
    )
    for column, images in enumerate(views):
        for row, image in enumerate(images):
            top, left = (_GAP + place * (_SIDE + _GAP) for place in (row, column))
            sheet[top : top + _SIDE, left : left + _SIDE] = image
    return sheet
