"""A view of a stored JPEG, decoded smaller than stored: cut to its box, then decoded at a half, a quarter or an eighth.

libjpeg decodes at these sizes in less time. The smallest size that still covers the view's place in its batch is chosen. Not
here: the last step, which shrinks by less than two (`resize.py`), the smaller decoding of a file to pack (`images.py`), and the
choice between several packed copies (`reading/sizes.py`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from abreast.records.decoding.crop import Box, Cut, cut
from abreast.records.decoding.decoder import checked_header, is_plain_jpeg, wrong
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.jpeg import Bytes, HeaderCache
from abreast.records.extras import extra
from abreast.records.reading.reader import Sample

_SHRINKS = (8, 4, 2)  # libjpeg is fast and exact at these


class ViewWindow(NamedTuple):
    """The whole pixels that a view touches, and its place among them, in pixels and fractions."""

    rows: slice
    columns: slice
    left: float
    top: float
    height: float
    width: float

    @property
    def is_whole(self) -> bool:
        """True if the view consists of exactly those pixels."""
        rows, columns = self.rows, self.columns
        return (self.height, self.width) == (rows.stop - rows.start, columns.stop - columns.start)

    def of(self, pixels: Pixels) -> Pixels:
        return pixels[self.rows, self.columns]


def window_at(left: float, top: float, width: float, height: float) -> ViewWindow:
    """The window of a view at this place."""
    first_row, first_column = int(top), int(left)
    rows = slice(first_row, math.ceil(top + height))
    columns = slice(first_column, math.ceil(left + width))
    return ViewWindow(rows, columns, left - first_column, top - first_row, height, width)


class Prepared(NamedTuple):
    """A view of a sample, ready to decode. `data` is a JPEG that contains it, decoded to `height` by `width`.

    Other images have no `data`, and are decoded whole.
    """

    sample: Sample
    flip: bool
    window: ViewWindow
    data: Bytes | None = None
    height: int = 0
    width: int = 0


class Scratch:
    """Memory for one array after another. New memory for each would take longer to get than to fill."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def array(self, *shape: int) -> Pixels:
        size = math.prod(shape)
        if self._memory.size < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size].reshape(shape)


class SmallerDecoder:
    """Decodes views of samples. One per thread, since it keeps the memory that it decodes into, and the last headers."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self.headers = HeaderCache()
        self._decoded = Scratch()
        self._decode_jpeg: Any = extra("simplejpeg").decode_jpeg

    def prepare(self, sample: Sample, box: Box, flip: bool, size: tuple[int, ...]) -> Prepared:
        """The part of the work that runs in Python. `size` is the height and the width of the view in its batch."""
        if not is_plain_jpeg(sample):
            return Prepared(sample, flip, window_at(box.left, box.top, box.width, box.height))
        header = checked_header(sample, self.headers.read(sample.data))
        shrink = next((n for n in _SHRINKS if box.height >= n * size[0] and box.width >= n * size[1]), 1)
        piece = cut(sample.data, box, sample.restarts, header) if len(sample.restarts) else None
        if piece is None:
            piece = Cut(sample.data, box.left, box.top, sample.width, sample.height)
        window = window_at(piece.left / shrink, piece.top / shrink, box.width / shrink, box.height / shrink)
        return Prepared(sample, flip, window, piece.data, -(-piece.height // shrink), -(-piece.width // shrink))

    def decode(self, view: Prepared, data: Bytes, colours: str) -> Pixels:
        """The pixels of `data`, in memory that the next call overwrites. Raises `DataError` for a damaged image."""
        shape = view.height, view.width, self._channels
        memory = self._decoded.array(*shape)
        try:
            pixels: Pixels = self._decode_jpeg(
                data, colours, min_height=view.height, min_width=view.width, buffer=memory
            )
        except ValueError as error:
            raise wrong(view.sample, f"cannot be decoded: {error}") from None
        if pixels.shape != shape:
            raise wrong(view.sample, f"decodes to pixels of shape {pixels.shape}")
        return pixels
