"""The same samples packed in several sizes, and the choice of the size for each crop.

A crop that becomes smaller anyway can be read from a smaller copy of its image, if that copy has enough pixels. This needs less
decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.format.index import Index
from abreast.records.reading.reader import Numbers, Records, Sample

_HINT = "pack the same source with the same --split and --shuffle-seed and a smaller --size"

Sides = npt.NDArray[np.int64]
Boxes = npt.NDArray[np.int64]


class Sizes:
    """A data set and smaller ones of the same samples. Opening it reads every shard's index.

    Copy `number + i * num_samples` is the sample `number` of data set `i`, where data set 0 is the largest. Raises
    `DataError` if the data sets differ in samples or in shapes of images, or if an image is larger than in data set 0.
    """

    def __init__(self, largest: Records, smaller: Sequence[str | PathLike[str]] = ()) -> None:
        others = [Records(folder) for folder in smaller]
        sides = [_sides(records) for records in (largest, *others)]
        for records, found in zip(others, sides[1:], strict=True):
            _check_same(largest, records)
            _check_smaller(records, found, sides[0])
        order = sorted(range(len(sides)), key=lambda i: -int(sides[i].sum()))  # stable for equal sizes
        self.records = [(largest, *others)[i] for i in order]
        self._sides = [sides[i] for i in order]
        self._num_samples = len(largest)

    @property
    def data_sets(self) -> list[str]:
        """The names of the data sets (`Manifest.data_set`), from the largest to the smallest."""
        return [records.manifest.data_set for records in self.records]

    @property
    def sides(self) -> Sides:
        """Height and width by samples, in the largest data set."""
        return self._sides[0]

    def copies(self, numbers: Numbers, boxes: Boxes, size: tuple[int, int]) -> tuple[Numbers, Boxes]:
        """The smallest copy for each box with at least `size` (height and width) pixels of it, and the box in that copy.

        `boxes` is samples by left, top, width and height. Borders are rounded to whole pixels of the copy.
        """
        copies, found = numbers, boxes
        begins = boxes[:, :2]
        ends = begins + boxes[:, 2:]
        full = self._sides[0][::-1, numbers].T  # width by height, as in boxes
        for i, sides in enumerate(self._sides[1:], 1):
            scale = sides[::-1, numbers].T / full
            first = np.rint(begins * scale).astype(np.int64)
            there = np.concatenate([first, np.rint(ends * scale).astype(np.int64) - first], axis=1)
            fits = (there[:, 2] >= size[1]) & (there[:, 3] >= size[0])
            copies = np.where(fits, numbers + i * self._num_samples, copies)
            found = np.where(fits[:, None], there, found)
        return copies, found

    def sample(self, copy: int) -> Sample:
        """The sample of this copy, without its columns."""
        size, number = divmod(copy, self._num_samples)
        return self.records[size].sample(number, with_columns=False)

    def will_need(self, copies: Numbers) -> None:
        """Ask the system to begin reading these copies from the disk, if they are not in memory yet."""
        sizes, numbers = np.divmod(copies, self._num_samples)
        for i, records in enumerate(self.records):
            records.will_need(numbers[sizes == i].tolist())

    def close(self) -> None:
        """Close the files."""
        for records in self.records:
            records.close()


def _sides(records: Records) -> Sides:
    """Height and width by samples."""
    tables = [index.samples for _, index in records.shards()]
    return np.stack([np.concatenate([table[name] for table in tables]) for name in ("height", "width")]).astype(
        np.int64
    )


def _check_same(largest: Records, records: Records) -> None:
    if len(records) != len(largest):
        raise DataError(f"{records.folder} has {len(records)} samples, and {largest.folder} has {len(largest)}", _HINT)
    ours, theirs = (_keys(each) for each in (largest, records))
    if ours != theirs:
        what = f"{records.folder} does not have the samples of {largest.folder} in the same order"
        raise DataError(what, _HINT)


def _keys(records: Records) -> tuple[bytes, list[int]]:
    indexes: list[Index] = [index for _, index in records.shards()]
    lengths = [np.diff(index.samples["key_end"], prepend=np.uint64(0)) for index in indexes]
    return b"".join(bytes(index.key_bytes) for index in indexes), np.concatenate(lengths).tolist()


def _check_smaller(records: Records, sides: Sides, full: Sides) -> None:
    """Raise `DataError` if a side is longer than in the largest, or if a shape differs by more than rounding."""
    (height, width), (full_height, full_width) = sides, full
    larger = (height > full_height) | (width > full_width)
    other = np.abs(height * full_width - width * full_height) > np.maximum(full_height, full_width)
    wrong = np.flatnonzero(larger | other)
    if wrong.size:
        i = int(wrong[0])
        what = f"{width[i]} x {height[i]} pixels, and {full_width[i]} x {full_height[i]} in the largest data set"
        raise DataError(f"sample {i} in {records.folder} has {what}", "give smaller data sets of the same images")
