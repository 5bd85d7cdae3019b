"""Painters fill the rows of batches with decoded images. The painters here are threads of this process.

Others are in `processes.py` and `gpu_painters.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from abreast.records.decoding.batch_memory import BatchMemory
from abreast.records.decoding.crop import Box
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.resize import PainterHere
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Numbers
from abreast.records.reading.sizes import Sizes
from abreast.records.threads import Pool

# Python is several times as slow right after a decode, which has emptied the processor's caches. So a few rows are prepared
# in Python at once. With many rows, their bytes would leave the caches before they are decoded.
_PREPARED_ROWS = 16


class PaintTask(Protocol):
    """Some rows of a batch, at work."""

    def result(self) -> None:
        """Wait for its end. Raises the error of the work."""


class Painters(Protocol):
    """Paint rows for one iteration over a loader."""

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """An array that they can paint into."""

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> PaintTask:
        """Begin to fill rows of `images`, from row `first` on: one row for each number of a copy (`sizes.py`).

        `images` comes from `array`.
        """

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function soon, separately from the batches."""

    def finish(self) -> None:
        """End when all begun tasks are done. No task follows."""

    def leave(self) -> None:
        """End now: drop tasks that have not begun, and wait for the others."""


class RowPainter:
    """Paints rows of batches. Any thread may call it; each thread has its own `Painter`."""

    def __init__(self, sizes: Sizes, channels: int, antialias: bool) -> None:
        self._sizes = sizes
        self._here = PainterHere(channels, antialias)

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels) -> None:
        painter = self._here.painter
        views = list(zip(numbers.tolist(), boxes.tolist(), flips.tolist(), strict=True))
        for begin in range(0, len(views), _PREPARED_ROWS):
            prepared = [
                painter.decoder.prepare(self._sizes.sample(number), Box(*box), flip, images.shape[1:])
                for number, box, flip in views[begin : begin + _PREPARED_ROWS]
            ]
            for i, view in enumerate(prepared, begin):
                painter.finish(view, images[i])


class Batches:
    """The properties of a loader's batches that painters need, and the memory that all painters of a loader share."""

    def __init__(
        self, sizes: Sizes, image_shape: tuple[int, int, int], antialias: bool, max_rows: int, keep_batches: int
    ) -> None:
        self.sizes = sizes
        self.image_shape = image_shape
        self.antialias = antialias
        self.max_rows = max_rows
        self.keep_batches = keep_batches
        self.block_bytes = max_rows * math.prod(image_shape)
        self.buffers = BatchMemory(self.block_bytes, keep_batches)
        self.rows = RowPainter(sizes, image_shape[2], antialias)


class Threads:
    """Threads of this process."""

    def __init__(self, batches: Batches, num_threads: int) -> None:
        self.array = batches.buffers.array
        self._rows = batches.rows
        self._pool = Pool(num_threads, "abreast-decode", "num_threads")

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> PaintTask:
        return self._pool.submit(self._rows.paint, numbers, boxes, flips, images[first : first + len(numbers)])

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        self._pool.submit(function, *arguments)

    def finish(self) -> None:
        self._pool.shutdown()

    def leave(self) -> None:
        self._pool.shutdown(cancel_futures=True)
