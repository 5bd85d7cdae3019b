"""A view of a stored image, resized to its place in a batch, and mirrored.

A JPEG is decoded smaller first (`decode_smaller.py`). The remaining resize shrinks by less than two; it is bilinear, and
`antialias` smooths before it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.records.decoding.decode_smaller import Prepared, Scratch, SmallerDecoder, ViewWindow
from abreast.records.decoding.decoder import decode
from abreast.records.decoding.images import Pixels
from abreast.records.extras import extra

_SMOOTHED_FROM = 1.1  # times smaller; below it, smoothing changes no more than rounding


class Painter:
    """Paints views of samples into their places. One per thread, since it keeps the memory that it decodes into."""

    def __init__(self, channels: int, antialias: bool) -> None:
        self._channels = channels
        self._colours, self._turned_colours = ("GRAY", "GRAY") if channels == 1 else ("RGB", "BGR")
        self._antialias = antialias
        self.decoder = SmallerDecoder(channels)
        self._smooth, self._mirrored = Scratch(), Scratch()
        self._cv2: Any = extra("cv2")

    def finish(self, view: Prepared, place: Pixels) -> None:
        """Fill `place`, a contiguous array, height by width by channels, nearly all of the time without Python's lock.

        Raises `DataError` for a damaged image.
        """
        turned = view.flip and view.data is not None
        if view.data is None:
            pixels = self._with_channels(view.window.of(decode(view.sample)))
        else:
            colours = self._turned_colours if turned else self._colours
            pixels = view.window.of(self.decoder.decode(view, view.data, colours))
        if not view.flip:
            self._resize(pixels, view.window, place)
            return
        made = self._mirrored.array(*place.shape)
        self._resize(pixels, view.window, made)
        if turned:  # rows are BGR: mirroring their bytes makes RGB, and is twice as fast as mirroring pixels of three
            made, place = (each.reshape(len(each), -1) for each in (made, place))
        self._cv2.flip(made, 1, dst=place)

    def _with_channels(self, pixels: Pixels) -> Pixels:
        """The pixels in gray or in colours, as the batch has them."""
        if pixels.shape[2] == self._channels:
            return pixels
        code = self._cv2.COLOR_GRAY2RGB if self._channels == 3 else self._cv2.COLOR_RGB2GRAY
        made: Pixels = self._cv2.cvtColor(pixels, code)
        return made.reshape(*pixels.shape[:2], self._channels)

    def _resize(self, pixels: Pixels, window: ViewWindow, place: Pixels) -> None:
        height, width = place.shape[:2]
        times = int(min(window.height / height, window.width / width))
        if times >= 2:
            pixels, window = self._reduced(pixels, window, times)
        down, across = window.height / height, window.width / width
        if self._antialias and max(down, across) >= _SMOOTHED_FROM:
            pixels = self._smoothed(pixels, down, across)
        if window.is_whole:
            self._cv2.resize(pixels, (width, height), dst=place, interpolation=self._cv2.INTER_LINEAR)
            return
        # The centre of each pixel of the place among the pixels, as `resize` defines it.
        move = np.array(
            [
                [across, 0, window.left + across / 2 - 0.5],
                [0, down, window.top + down / 2 - 0.5],
            ]
        )
        flags = self._cv2.INTER_LINEAR | self._cv2.WARP_INVERSE_MAP
        border = self._cv2.BORDER_REPLICATE
        self._cv2.warpAffine(pixels, move, (width, height), dst=place, flags=flags, borderMode=border)

    def _smoothed(self, pixels: Pixels, down: float, across: float) -> Pixels:
        """Smoothed pixels, so that a bilinear resize, which shrinks by `down` and `across`, gives an antialiased image.

        A bilinear resize has a triangle of half width 1 as its filter; an antialiased one has half width `down` or
        `across`. The variance of a triangle is a sixth of its squared half width: three taps add the difference.
        """
        smooth = self._smooth.array(*pixels.shape)
        border = self._cv2.BORDER_REPLICATE
        self._cv2.sepFilter2D(pixels, -1, _taps(across), _taps(down), dst=smooth, borderType=border)
        return smooth

    def _reduced(self, pixels: Pixels, window: ViewWindow, times: int) -> tuple[Pixels, ViewWindow]:
        """Pixels that are means of `times` by `times`, which OpenCV computes fast. The border is repeated to fill blocks."""
        rows, columns = (-(-size // times) for size in pixels.shape[:2])
        below, beside = rows * times - pixels.shape[0], columns * times - pixels.shape[1]
        if below or beside:
            pixels = self._cv2.copyMakeBorder(pixels, 0, below, 0, beside, self._cv2.BORDER_REPLICATE)
        smaller: Pixels = self._cv2.resize(pixels, (columns, rows), interpolation=self._cv2.INTER_AREA)
        place = (size / times for size in window[2:])
        return smaller.reshape(rows, columns, -1), ViewWindow(slice(0, rows), slice(0, columns), *place)


class PainterHere(threading.local):
    """A thread-local: each thread has its own `painter`."""

    def __init__(self, channels: int, antialias: bool) -> None:
        self.painter = Painter(channels, antialias)


def _taps(step: float) -> npt.NDArray[np.float32]:
    outer = max(step * step - 1, 0) / 12
    return np.array([outer, 1 - 2 * outer, outer], np.float32)
