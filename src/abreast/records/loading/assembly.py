"""The making of one batch: views of its samples are drawn, painters decode them into one array, columns become the targets.

Not here: the choice of a batch's samples (`sampling.py`), and the order of batches (`loader.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.records.decoding.images import Pixels
from abreast.records.decoding.painters import Batches, Painters, PaintTask
from abreast.records.loading.draws import uniforms
from abreast.records.loading.targets import ClassNames, Targets, target_columns
from abreast.records.loading.views import CenterCrop, RandomCrop, Views
from abreast.records.reading.reader import Numbers
from abreast.records.reading.sizes import Sizes

_MAX_ROWS_OF_A_TASK = 16


@dataclass(frozen=True)
class Look:
    """The rule that turns images into rows of a batch. `size`: height and width. `antialias` costs time if images shrink."""

    size: tuple[int, int]
    view: RandomCrop | CenterCrop
    antialias: bool


@dataclass(frozen=True)
class Started:
    """A batch that painters work on."""

    data: Any
    tasks: list[PaintTask]

    def wait(self) -> Any:
        """The finished batch. Raises the error of a damaged image."""
        for task in self.tasks:
            task.result()
        return self.data


class Assembly:
    """Makes batches of a data set, in any thread. Opening it reads every shard's index."""

    def __init__(
        self,
        sizes: Sizes,
        look: Look,
        targets: Targets,
        weights: str | None,
        max_rows: int,
        keep_batches: int,
        class_names: ClassNames = None,
    ) -> None:
        records = sizes.records[0]
        channels = max(int(index.samples["channels"].max(initial=1)) for _, index in records.shards())
        self.look = look
        self.batches = Batches(sizes, (*look.size, channels), look.antialias, max_rows, keep_batches)
        found = target_columns(records, targets, class_names)
        self._targets, self.class_names = found.arrays, found.class_names
        self._weights = None if weights is None else records.column(weights)

    def like(self) -> Any:
        """A batch without rows."""
        return self._batch(np.empty((0, *self.batches.image_shape), np.uint8), np.empty(0, np.int64))

    def start(self, numbers: Numbers, seed: int, epoch: int, first: int, painters: Painters, num_tasks: int) -> Started:
        """Begin the batch of these samples with painters. The positions in the epoch's order begin at `first`."""
        copies, views = self._views(numbers, seed, epoch, first)
        images = painters.array((len(numbers), *self.batches.image_shape))
        rows = max(1, min(_MAX_ROWS_OF_A_TASK, -(-len(numbers) // num_tasks)))
        tasks = [
            painters.paint(copies[part], views.boxes[part], views.flips[part], images, part.start)
            for part in (slice(begin, begin + rows) for begin in range(0, len(numbers), rows))
        ]
        return Started(self._batch(images, numbers), tasks)

    def make(self, numbers: Numbers, seed: int, epoch: int, first: int) -> Any:
        """The batch, made in this thread."""
        copies, views = self._views(numbers, seed, epoch, first)
        images = self.batches.buffers.array((len(numbers), *self.batches.image_shape))
        self.batches.rows.paint(copies, views.boxes, views.flips, images)
        return self._batch(images, numbers)

    def will_need(self, numbers: Numbers, seed: int, epoch: int, first: int) -> None:
        """Ask the system to begin reading the samples of this batch from the disk."""
        sizes = self.batches.sizes
        sizes.will_need(self._views(numbers, seed, epoch, first)[0] if len(sizes.records) > 1 else numbers)

    def _views(self, numbers: Numbers, seed: int, epoch: int, first: int) -> tuple[Numbers, Views]:
        """The copies of the samples to read, and the view of each."""
        view, sizes = self.look.view, self.batches.sizes
        draws = uniforms(seed, epoch, first, len(numbers), view.num_draws) if view.num_draws else np.empty((0, 0))
        heights, widths = sizes.sides[:, numbers]
        views = view.views(heights, widths, self.look.size, draws)
        copies, boxes = sizes.copies(numbers, views.boxes, self.look.size)
        return copies, Views(boxes, views.flips)

    def _batch(self, images: Pixels, numbers: Numbers) -> Any:
        """The batch in Keras's form: images alone, `(x, y)`, or `(x, y, sample_weight)`."""
        y: Any = self._targets
        if y is not None:
            y = {name: each[numbers] for name, each in y.items()} if isinstance(y, dict) else y[numbers]
        if self._weights is not None:
            return images, y, self._weights[numbers]
        return images if y is None else (images, y)
