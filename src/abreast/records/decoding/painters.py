"""Who paints the rows of batches: threads of this process. Other processes are in `processes.py`.

Imports `buffers`, `crop`, `pixels`, `pool` and `sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from abreast.records.decoding.buffers import Buffers
from abreast.records.decoding.crop import Box
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.resize import PainterHere
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Numbers
from abreast.records.reading.sizes import Sizes
from abreast.records.threads import Pool

# Right behind a decode Python is several times as slow, since nothing of it is left in the processor's caches: so that of a
# few rows is done at once. Of many, the bytes would leave the caches before they are decoded.
_PREPARED_ROWS = 16


class Task(Protocol):
    """Work that was begun."""

    def result(self) -> None:
        """Wait for its end. Raises what it raised."""


class Painters(Protocol):
    """Paint rows for one iteration over a loader."""

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """Where they can paint."""

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> Task:
        """Begin to fill the rows from `first` on of what `array` gave: one for each number of a copy (`sizes.py`)."""

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call something that takes no part in a batch, soon."""

    def finish(self) -> None:
        """All that is asked for is asked for; end when that is done."""

    def leave(self) -> None:
        """End now: forget what is not begun, wait for what is."""


class Rows:
    """Rows of batches, in any thread: each has a `Painter` of its own."""

    def __init__(self, sizes: Sizes, channels: int, antialias: bool) -> None:
        self._sizes = sizes
        self._here = PainterHere(channels, antialias)

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels) -> None:
        painter = self._here.painter
        views = list(zip(numbers.tolist(), boxes.tolist(), flips.tolist(), strict=True))
        for begin in range(0, len(views), _PREPARED_ROWS):
            prepared = [
                painter.prepare(self._sizes.sample(number), Box(*box), flip, images.shape[1:])
                for number, box, flip in views[begin : begin + _PREPARED_ROWS]
            ]
            for i, view in enumerate(prepared, begin):
                painter.finish(view, images[i])


class Batches:
    """What painters need to know about the batches of a loader, and what all painters of a loader share."""

    def __init__(
        self, sizes: Sizes, image_shape: tuple[int, int, int], antialias: bool, max_rows: int, keep_batches: int
    ) -> None:
        self.sizes = sizes
        self.image_shape = image_shape
        self.antialias = antialias
        self.max_rows = max_rows
        self.keep_batches = keep_batches
        self.block_bytes = max_rows * math.prod(image_shape)
        self.buffers = Buffers(self.block_bytes, keep_batches)
        self.rows = Rows(sizes, image_shape[2], antialias)


class Threads:
    """Threads of this process."""

    def __init__(self, batches: Batches, num_threads: int) -> None:
        self.array = batches.buffers.array
        self._rows = batches.rows
        self._pool = Pool(num_threads, "abreast-decode", "num_threads")

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> Task:
        return self._pool.submit(self._rows.paint, numbers, boxes, flips, images[first : first + len(numbers)])

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        self._pool.submit(function, *arguments)

    def finish(self) -> None:
        self._pool.shutdown()

    def leave(self) -> None:
        self._pool.shutdown(cancel_futures=True)
