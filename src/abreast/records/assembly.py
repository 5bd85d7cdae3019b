"""Batches of samples: their views drawn, their images decoded into one array by many threads, their columns beside it.

Not here: which samples a batch has (`sampling.py`), and what is asked for in which order (`loader.py`). Imports `buffers`,
`columns`, `draws`, `pixels`, `reader`, `views` and `errors`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.buffers import Buffers
from abreast.records.columns import Array
from abreast.records.crop import Box
from abreast.records.draws import uniforms
from abreast.records.images import Pixels
from abreast.records.pixels import Painter
from abreast.records.reader import Records
from abreast.records.sampling import Numbers
from abreast.records.views import CenterCrop, RandomCrop, Views

_MAX_ROWS_OF_A_TASK = 16

Targets = str | Sequence[str] | None


@dataclass(frozen=True)
class Look:
    """What becomes of an image: `size` is height and width, `antialias` costs time where images are made smaller."""

    size: tuple[int, int]
    view: RandomCrop | CenterCrop
    antialias: bool


@dataclass(frozen=True)
class Started:
    """A batch that threads are at work on."""

    data: Any
    tasks: list[Future[None]]

    def wait(self) -> Any:
        """The batch. Raises what one of its images raised."""
        for task in self.tasks:
            task.result()
        return self.data


class Assembly:
    """Makes batches of a data set; any thread may ask. Opening it reads every shard's index."""

    def __init__(
        self,
        records: Records,
        look: Look,
        targets: Targets,
        weights: str | None,
        max_rows: int,
        keep_batches: int,
    ) -> None:
        self.records = records
        self.look = look
        tables = [index.samples for _, index in records.shards()]
        self._heights, self._widths = (np.concatenate([each[name] for each in tables]) for name in ("height", "width"))
        self._channels = max(int(each["channels"].max(initial=1)) for each in tables)
        self._targets = _columns(records, targets)
        self._weights = None if weights is None else records.column(weights)
        self._buffers = Buffers(max_rows * math.prod(self.image_shape), keep_batches)
        self._here = threading.local()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (*self.look.size, self._channels)

    def like(self) -> Any:
        """A batch without rows."""
        return self._batch(np.empty((0, *self.image_shape), np.uint8), np.empty(0, np.int64))

    def start(self, numbers: Numbers, seed: int, epoch: int, first: int, pool: Executor, num_tasks: int) -> Started:
        """Let the pool make the batch of these samples, which stand in the epoch's order from `first` on."""
        views = self._views(numbers, seed, epoch, first)
        images = self._buffers.array((len(numbers), *self.image_shape))
        rows = max(1, min(_MAX_ROWS_OF_A_TASK, -(-len(numbers) // num_tasks)))
        tasks = [
            pool.submit(self._paint, numbers[part], views.boxes[part], views.flips[part], images[part])
            for part in (slice(begin, begin + rows) for begin in range(0, len(numbers), rows))
        ]
        return Started(self._batch(images, numbers), tasks)

    def make(self, numbers: Numbers, seed: int, epoch: int, first: int) -> Any:
        """The batch, made in this thread."""
        views = self._views(numbers, seed, epoch, first)
        images = self._buffers.array((len(numbers), *self.image_shape))
        self._paint(numbers, views.boxes, views.flips, images)
        return self._batch(images, numbers)

    def _views(self, numbers: Numbers, seed: int, epoch: int, first: int) -> Views:
        view = self.look.view
        draws = uniforms(seed, epoch, first, len(numbers), view.num_draws) if view.num_draws else np.empty((0, 0))
        heights, widths = (each[numbers].astype(np.int64) for each in (self._heights, self._widths))
        return view.views(heights, widths, self.look.size, draws)

    def _paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels) -> None:
        painter = getattr(self._here, "painter", None)
        if painter is None:
            painter = self._here.painter = Painter(self._channels, self.look.antialias)
        for i, (number, box, flip) in enumerate(zip(numbers.tolist(), boxes.tolist(), flips.tolist(), strict=True)):
            painter.paint(self.records[number], Box(*box), flip, images[i])

    def _batch(self, images: Pixels, numbers: Numbers) -> Any:
        """Images, or those with what belongs to them: `(x, y)` or `(x, y, sample_weight)`."""
        y: Any = self._targets
        if y is not None:
            y = {name: each[numbers] for name, each in y.items()} if isinstance(y, dict) else y[numbers]
        if self._weights is not None:
            return images, y, self._weights[numbers]
        return images if y is None else (images, y)


def _columns(records: Records, targets: Targets) -> Array | dict[str, Array] | None:
    if targets is None:
        return None
    try:
        if isinstance(targets, str):
            return records.column(targets)
        return {name: records.column(name) for name in targets}
    except DataError as error:
        raise DataError(error.message, f"{error.hint}; targets=None gives images alone") from None
