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


class Scratch:
    """Memory that is used again, for one array after another: to get new each time takes longer than to fill it."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def array(self, *shape: int) -> Pixels:
        size = math.prod(shape)
        if self._memory.size < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size].reshape(shape)


class Painter:
    """Puts views of samples into their places. One per thread: it keeps the memory that it decodes into."""

    def __init__(self, channels: int, antialias: bool) -> None:
        self._channels = channels
        self._colours, self._turned_colours = ("GRAY", "GRAY") if channels == 1 else ("RGB", "BGR")
        self._antialias = antialias
        self._headers = HeaderCache()
        self._decoded, self._smooth, self._mirrored = Scratch(), Scratch(), Scratch()
        self._cv2: Any = extra("cv2")
        self._decode_jpeg: Any = extra("simplejpeg").decode_jpeg

    def paint(self, sample: Sample, box: Box, flip: bool, place: Pixels) -> None:
        """Fill `place`, a contiguous array of height by width by channels. Raises `DataError` for a damaged image."""
        turned = flip and is_plain_jpeg(sample)
        part = self._part(sample, box, place.shape, self._turned_colours if turned else self._colours)
        if part.pixels.shape[2] != self._channels:
            code = self._cv2.COLOR_GRAY2RGB if self._channels == 3 else self._cv2.COLOR_RGB2GRAY
            height, width = part.pixels.shape[:2]
            pixels = self._cv2.cvtColor(part.pixels, code).reshape(height, width, self._channels)
            part = part._replace(pixels=pixels)
        if flip:
            self._resize_mirrored(part, turned, place)
        else:
            self._resize(part, place)

    def _part(self, sample: Sample, box: Box, size: tuple[int, ...], colours: str) -> Part:
        """The pixels of the box, or of the box made smaller: at least height by width, where the box has so many."""
        if not is_plain_jpeg(sample):
            return part_of(decode(sample), box.left, box.top, box.width, box.height)
        header = checked_header(sample, self._headers.read(sample.data))
        height, width = size[:2]
        shrink = next((n for n in _SHRINKS if box.height >= n * height and box.width >= n * width), 1)
        piece = cut(sample.data, box, sample.restarts, header) if len(sample.restarts) else None
        if piece is None:
            left, top = box.left, box.top
            pixels = self._decode(sample, sample.data, sample.height, sample.width, shrink, colours)
        else:
            left, top = piece.left, piece.top
            pixels = self._decode(sample, piece.data, piece.height, piece.width, shrink, colours)
        return part_of(pixels, left / shrink, top / shrink, box.width / shrink, box.height / shrink)

    def _decode(self, sample: Sample, data: Bytes, height: int, width: int, shrink: int, colours: str) -> Pixels:
        height, width = -(-height // shrink), -(-width // shrink)
        memory = self._decoded.array(height, width, self._channels)
        try:
            pixels: Pixels = self._decode_jpeg(data, colours, min_height=height, min_width=width, buffer=memory)
        except ValueError as error:
            raise wrong(sample, f"cannot be decoded: {error}") from None
        if pixels.shape != (height, width, self._channels):
            raise wrong(sample, f"decodes to pixels of shape {pixels.shape}")
        return pixels

    def _resize_mirrored(self, part: Part, turned: bool, place: Pixels) -> None:
        """`turned` says that blue is first: bytes are mirrored twice as fast as pixels of three, and that makes red first."""
        made = self._mirrored.array(*place.shape)
        self._resize(part, made)
        if turned:
            made, place = (each.reshape(len(each), -1) for each in (made, place))
        self._cv2.flip(made, 1, dst=place)

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
        smooth = self._smooth.array(*pixels.shape)
        border = self._cv2.BORDER_REPLICATE
        self._cv2.sepFilter2D(pixels, -1, _taps(across), _taps(down), dst=smooth, borderType=border)
        return smooth

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
