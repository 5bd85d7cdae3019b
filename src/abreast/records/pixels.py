"""A view of a stored image, made to the size of its place in a batch: cut, decode, resize, mirror.

What is decoded is as small as it can be: a JPEG is cut to the box first, and libjpeg decodes it at a half, a quarter or an
eighth where that still covers the place. What is left is a step of less than two, which is bilinear; `antialias` smooths
before it. Imports `crop`, `decoder`, `images`, `jpeg`, `reader` and `extras`; OpenCV at work.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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


class Part(NamedTuple):
    """Pixels, and which of them are meant: from `left` and `top` on, in pixels and parts of them."""

    pixels: Pixels
    left: float
    top: float
    height: float
    width: float

    @property
    def is_all(self) -> bool:
        return self[1:] == (0, 0, *self.pixels.shape[:2])


def part_of(pixels: Pixels, left: float, top: float, width: float, height: float) -> Part:
    """Without the pixels that have nothing of it."""
    first_row, first_column = int(top), int(left)
    rows, columns = math.ceil(top + height) - first_row, math.ceil(left + width) - first_column
    pixels = pixels[first_row : first_row + rows, first_column : first_column + columns]
    return Part(pixels, left - first_column, top - first_row, height, width)


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
        part = self._part(sample, box, place.shape[0], place.shape[1])
        if part.pixels.shape[2] != self._channels:
            code = self._cv2.COLOR_GRAY2RGB if self._channels == 3 else self._cv2.COLOR_RGB2GRAY
            height, width = part.pixels.shape[:2]
            pixels = self._cv2.cvtColor(part.pixels, code).reshape(height, width, self._channels)
            part = part._replace(pixels=pixels)
        if not flip:
            self._resize(part, place)
            return
        if self._mirrored.size != place.size:
            self._mirrored = np.empty(place.size, np.uint8)
        mirrored = self._mirrored.reshape(place.shape)
        self._resize(part, mirrored)
        self._cv2.flip(mirrored, 1, dst=place)

    def _part(self, sample: Sample, box: Box, height: int, width: int) -> Part:
        """The pixels of the box, or of the box made smaller: at least height by width, where the box has so many."""
        if not is_plain_jpeg(sample):
            return part_of(decode(sample), box.left, box.top, box.width, box.height)
        header = checked_header(sample, self._headers.read(sample.data))
        shrink = next((n for n in _SHRINKS if box.height >= n * height and box.width >= n * width), 1)
        piece = cut(sample.data, box, sample.restarts, header) if len(sample.restarts) else None
        if piece is None:
            left, top = box.left, box.top
            pixels = self._decode(sample, sample.data, sample.height, sample.width, shrink)
        else:
            left, top = piece.left, piece.top
            pixels = self._decode(sample, piece.data, piece.height, piece.width, shrink)
        return part_of(pixels, left / shrink, top / shrink, box.width / shrink, box.height / shrink)

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

    def _resize(self, part: Part, place: Pixels) -> None:
        height, width = place.shape[:2]
        whole = int(min(part.height / height, part.width / width))
        if whole >= 2:
            part = self._reduced(part, whole)
        down, across = part.height / height, part.width / width
        if self._antialias and max(down, across) >= _SMOOTHED_FROM:
            part = part._replace(pixels=self._smoothed(part.pixels, down, across))
        if part.is_all:
            self._cv2.resize(part.pixels, (width, height), dst=place, interpolation=self._cv2.INTER_LINEAR)
            return
        # Where the centre of each pixel lies, as `resize` has it.
        move = np.array(
            [
                [across, 0, part.left + across / 2 - 0.5],
                [0, down, part.top + down / 2 - 0.5],
            ]
        )
        flags = self._cv2.INTER_LINEAR | self._cv2.WARP_INVERSE_MAP
        border = self._cv2.BORDER_REPLICATE
        self._cv2.warpAffine(part.pixels, move, (width, height), dst=place, flags=flags, borderMode=border)

    def _smoothed(self, pixels: Pixels, down: float, across: float) -> Pixels:
        """What a bilinear resize, so many times smaller, then sees as one with a filter as wide as its step does.

        The variance of a triangle is a sixth of its half width squared: three taps add what is missing to that of width 1.
        """
        smooth: Pixels = self._cv2.sepFilter2D(
            pixels, -1, _taps(across), _taps(down), borderType=self._cv2.BORDER_REPLICATE
        )
        return smooth.reshape(pixels.shape)

    def _reduced(self, part: Part, times: int) -> Part:
        """Each pixel the mean of `times` by `times`, which OpenCV has a fast way for; the last ones of a few more."""
        rows, columns = (-(-size // times) for size in part.pixels.shape[:2])
        pixels = part.pixels
        below, beside = rows * times - pixels.shape[0], columns * times - pixels.shape[1]
        if below or beside:
            pixels = self._cv2.copyMakeBorder(pixels, 0, below, 0, beside, self._cv2.BORDER_REPLICATE)
        smaller: Pixels = self._cv2.resize(pixels, (columns, rows), interpolation=self._cv2.INTER_AREA)
        left, top, height, width = (size / times for size in part[1:])
        return Part(smaller.reshape(rows, columns, -1), left, top, height, width)


def _taps(step: float) -> npt.NDArray[np.float32]:
    outer = max(step * step - 1, 0) / 12
    return np.array([outer, 1 - 2 * outer, outer], np.float32)
