"""The measured rate, in images per second, at which painters make a loader's batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from abreast.records.loading.assembly import Started

_MEASURED_SECONDS, _MEASURED_BATCHES = 1.0, 3  # lower limits of a measurement


def images_per_second(start: Callable[[int], Started], num_ahead: int) -> float:
    """Images per second of the batches that `start` begins, with `num_ahead` more batches begun ahead.

    `start` takes the number of a batch, counted from 0. The first batches are not counted: they make the pipelines
    and read the disk.
    """
    started: deque[Started] = deque()
    asked = images = done = 0
    begin = time.perf_counter()
    while True:
        while len(started) <= num_ahead:
            started.append(start(asked))
            asked += 1
        images += len(_images(started.popleft().wait()))
        done += 1
        if done == num_ahead + 1:
            images, begin = 0, time.perf_counter()
        seconds = time.perf_counter() - begin
        if done >= num_ahead + 1 + _MEASURED_BATCHES and seconds >= _MEASURED_SECONDS:
            return images / seconds


def _images(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple) else batch
