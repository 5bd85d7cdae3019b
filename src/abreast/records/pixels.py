"""A view of a stored image, made to the size of its place in a batch: cut, decode, resize, mirror.

What is decoded is as small as it can be: a JPEG is cut to the box first, and libjpeg decodes it at a half, a quarter or an
eighth where that still covers the place. What is left is a step of less than two, which is bilinear; `antialias` smooths
before it. Imports `crop`, `decoder`, `images`, `jpeg`, `reader` and `extras`; OpenCV at work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.records.crop import Box, cut
from abreast.records.decoder import checked_header, decode, is_plain_jpeg, wrong
from abreast.records.extras import extra
from abreast.records.images import Pixels
from abreast.records.jpeg import Bytes, HeaderCache
from abreast.records.reader import Sample

_SHRINKS = (8, 4, 2)  # where libjpeg has fast ways, and each halves exactly
_SMOOTHED_FROM = 1.1  # times smaller: below, smoothing changes no more than rounding does


class Painter:
    """Puts views of samples into their places. One per thread: it keeps the memory that it decodes into."""

    def __init__(self, channels: int, antialias: bool) -> None:
        self._channels = channels
        self._colours = "GRAY" if channels == 1 else "RGB"
        self._antialias = antialias
        self._headers = HeaderCache()
        self._decoded = np.empty(0, np.uint8)
        self._mirrored = np.empty(0, np.uint8)
        self._cv2: Any = extra("cv2")
        self._decode_jpeg: Any = extra("simplejpeg").decode_jpeg

    def paint(self, sample: Sample, box: Box, flip: bool, place: Pixels) -> None:
        """Fill `place`, a contiguous array of height by width by channels. Raises `DataError` for a damaged image."""
        source = self._source(sample, box, place.shape[0], place.shape[1])
        if source.shape[2] != self._channels:
            code = self._cv2.COLOR_GRAY2RGB if self._channels == 3 else self._cv2.COLOR_RGB2GRAY
            source = self._cv2.cvtColor(source, code).reshape(*source.shape[:2], self._channels)
        if not flip:
            self._resize(source, place)
            return
        if self._mirrored.size != place.size:
            self._mirrored = np.empty(place.size, np.uint8)
        mirrored = self._mirrored.reshape(place.shape)
        self._resize(source, mirrored)
        self._cv2.flip(mirrored, 1, dst=place)

    def _source(self, sample: Sample, box: Box, height: int, width: int) -> Pixels:
        """The pixels of the box, or of the box made smaller: at least height by width, where the box has so many."""
        if not is_plain_jpeg(sample):
            return decode(sample)[box.top : box.bottom, box.left : box.right]
        header = checked_header(sample, self._headers.read(sample.data))
        shrink = next((n for n in _SHRINKS if box.height >= n * height and box.width >= n * width), 1)
        piece = cut(sample.data, box, sample.restarts, header) if len(sample.restarts) else None
        if piece is None:
            left, top = box.left, box.top
            pixels = self._decode(sample, sample.data, sample.height, sample.width, shrink)
        else:
            left, top = piece.left, piece.top
            pixels = self._decode(sample, piece.data, piece.height, piece.width, shrink)
        # A box of less than so many pixels more or less is as good as the one that was drawn.
        left, top, rows, columns = left // shrink, top // shrink, box.height // shrink, box.width // shrink
        return pixels[top : top + rows, left : left + columns]

    def _decode(self, sample: Sample, data: Bytes, height: int, width: int, shrink: int) -> Pixels:
        height, width = -(-height // shrink), -(-width // shrink)
        size = height * width * self._channels
        if self._decoded.size < size:
            self._decoded = np.empty(size, np.uint8)
        try:
            pixels: Pixels = self._decode_jpeg(
                data, self._colours, min_height=height, min_width=width, buffer=self._decoded
            )
        except ValueError as error:
            raise wrong(sample, f"cannot be decoded: {error}") from None
        if pixels.shape != (height, width, self._channels):
            raise wrong(sample, f"decodes to pixels of shape {pixels.shape}")
        return pixels

    def _resize(self, source: Pixels, place: Pixels) -> None:
        height, width = place.shape[:2]
        whole = min(source.shape[0] // height, source.shape[1] // width)
        if whole >= 2:
            source = self._halved(source, whole)
        if self._antialias:
            source = self._smoothed(source, source.shape[0] / height, source.shape[1] / width)
        self._cv2.resize(source, (width, height), dst=place, interpolation=self._cv2.INTER_LINEAR)

    def _smoothed(self, source: Pixels, down: float, across: float) -> Pixels:
        """What a bilinear resize, so many times smaller, then sees as one with a filter as wide as its step does.

        The variance of a triangle is a sixth of its half width squared: three taps add what is missing to that of width 1.
        """
        if max(down, across) < _SMOOTHED_FROM:
            return source
        smooth: Pixels = self._cv2.sepFilter2D(
            source, -1, _taps(across), _taps(down), borderType=self._cv2.BORDER_REPLICATE
        )
        return smooth.reshape(source.shape)

    def _halved(self, source: Pixels, times: int) -> Pixels:
        """Each pixel the mean of `times` by `times`, which OpenCV has a fast way for; fewer than so many are left out."""
        rows, columns = source.shape[0] // times, source.shape[1] // times
        whole = source[: rows * times, : columns * times]
        smaller: Pixels = self._cv2.resize(whole, (columns, rows), interpolation=self._cv2.INTER_AREA)
        return smaller


def _taps(step: float) -> npt.NDArray[np.float32]:
    outer = max(step * step - 1, 0) / 12
    return np.array([outer, 1 - 2 * outer, outer], np.float32)
