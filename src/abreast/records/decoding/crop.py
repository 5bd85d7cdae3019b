"""Cuts a crop out of a JPEG without decoding it: its header with another size, and the segments that the crop needs.

Each segment between restart markers can be decoded by itself, so that the segments of a crop make up a smaller JPEG. It
has one more pixel on each side, because decoders smooth colours over the neighbouring pixel. So the crop has exactly the
pixels of the full decode.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.decoding.jpeg import EOI, RST, SOI, Bytes, JpegHeader, read_header, restart_lengths

_MARGIN = 1  # pixels
# libjpeg smooths colours only in rows with more than two samples of colour (jdsample.c), which are four pixels at 4:2:0.
_FEWEST = 5  # pixels
_CODES = np.tile(np.array(RST, np.uint8), 1024)

Restarts = npt.NDArray[np.unsignedinteger[Any]]


class Box(NamedTuple):
    """A part of an image, in pixels of the image as it is stored.

    Args:
        left: number of columns to its left.
        top: number of rows above it.
        width: its width.
        height: its height.

    Example:
        >>> from abreast.records import Box
        >>> box = Box(left=10, top=20, width=32, height=16)
        >>> box.right, box.bottom
        (42, 36)
    """

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first column to its right."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """The first row below it."""
        return self.top + self.height


class Cut(NamedTuple):
    """A JPEG that covers a part of another one, made without decoding.

    Args:
        data: the bytes of the JPEG.
        left: the column at which the part begins in it.
        top: the row at which the part begins in it.
        width: the width of the JPEG in pixels.
        height: its height.

    Example:
        >>> from abreast.records import Cut
        >>> Cut(b"...", left=1, top=1, width=48, height=48).width  # `cut` returns one
        48
    """

    data: Bytes
    left: int
    top: int
    width: int
    height: int


def cut(data: Bytes, box: Box, restarts: Restarts | None = None, header: JpegHeader | None = None) -> Cut | None:
    r"""A small JPEG with the pixels of a part, made without decoding, or None if `data` cannot be cut.

    Data can be cut if it has restart markers that divide its rows, as `pack` writes them, and is not progressive.

    Args:
        data: the bytes of a JPEG.
        box: the part, in pixels.
        restarts: `sample.restarts`, if it is known; else the markers are searched.
        header: the header of `data`, if it was read already.

    Raises:
        DataError: the part is outside of the image, `data` is not a JPEG, or `restarts` does not belong to it.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Box, Records, cut, pack
        >>> summary = pack(np.zeros((1, 512, 512, 3), np.uint8), "images.pack")
        >>> sample = Records("images.pack")[0]
        >>> piece = cut(sample.data, Box(100, 100, 64, 64), sample.restarts)
        >>> piece.left + 64 <= piece.width < 512, bytes(piece.data[:2])
        (True, b'\xff\xd8')
    """
    header = header or read_header(data)
    if not (0 <= box.left < box.right <= header.width and 0 <= box.top < box.bottom <= header.height):
        raise DataError(f"{box} is outside of an image of {header.width} x {header.height} pixels")
    per_row = _segments_per_row(header)
    if not per_row:
        return None
    if restarts is None:
        restarts = restart_lengths(data, header)
    if not len(restarts):
        return None
    if len(restarts) != per_row * header.mcu_rows:
        raise DataError(f"{len(restarts)} restarts do not belong to a JPEG with {per_row * header.mcu_rows}")
    scan = memoryview(data)[header.scan_begin :]
    bounds = np.zeros(len(restarts) + 1, np.int64)  # of the segments, in bytes of the scan
    bounds[1:] = restarts
    np.add.accumulate(bounds, out=bounds)
    if bounds[-1] > len(scan):
        end = header.scan_begin + bounds[-1]
        raise DataError(f"the restarts end at byte {end}, and the JPEG has {len(data)} bytes")
    return _assembled(scan, header, box, restarts.reshape(-1, per_row), bounds)


def _segments_per_row(header: JpegHeader) -> int:
    """The number of segments in a row of MCUs; 0 if there are none, or if a segment continues in the next row."""
    interval = header.restart_interval
    if not header.sequential or not interval:
        return 0
    whole, rest = divmod(header.mcus_per_row, interval)
    return 0 if rest else whole


def _assembled(scan: memoryview, header: JpegHeader, box: Box, lengths: Restarts, bounds: npt.NDArray[np.int64]) -> Cut:
    across, down = header.mcu_width * header.restart_interval, header.mcu_height
    rows = _needed(box.top, box.bottom, header.height, down)
    columns = _needed(box.left, box.right, header.width, across)
    left, top = columns.start * across, rows.start * down
    width = min(columns.stop * across, header.width) - left
    height = min(rows.stop * down, header.height) - top
    head = _head(header, width, height)
    whole = bytearray().join([head, *_runs(scan, bounds, rows, columns, lengths.shape[1])])
    _renumber(np.frombuffer(whole, np.uint8), len(head), lengths[rows, columns])
    return Cut(whole, box.left - left, box.top - top, width, height)


def _runs(
    scan: memoryview, bounds: npt.NDArray[np.int64], rows: slice, columns: slice, per_row: int
) -> list[memoryview]:
    """The bytes of the needed segments, one run for each row of MCUs."""
    first, last = rows.start * per_row, rows.stop * per_row
    begins = bounds[first + columns.start : last : per_row].tolist()
    ends = bounds[first + columns.stop : last + 1 : per_row].tolist()
    return [scan[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _needed(begin: int, end: int, size: int, step: int) -> slice:
    """The segments along an axis, of `step` pixels each, that hold these pixels and the margin around them.

    A last segment that is too narrow for smoothing comes with the one before it. Only columns need that; for rows it
    costs little.
    """
    return slice(max(min(begin - _MARGIN, size - _FEWEST), 0) // step, -(-min(end + _MARGIN, size) // step))


def _head(header: JpegHeader, width: int, height: int) -> bytes:
    frame = header.frame[:5] + struct.pack(">HH", height, width) + header.frame[9:]
    return bytes([0xFF, SOI]) + header.tables + frame + header.scan


def _renumber(whole: npt.NDArray[np.uint8], scan_begin: int, lengths: Restarts) -> None:
    """Write the second byte of the marker after each segment: RST0 to RST7 in turns, and EOI after the last segment."""
    places = np.add.accumulate(lengths.astype(np.int64).ravel())
    places += scan_begin - 1
    whole[places] = np.resize(_CODES, places.size) if places.size > len(_CODES) else _CODES[: places.size]
    whole[-1] = EOI
