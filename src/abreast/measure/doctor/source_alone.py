"""The source of a `fit` read with nothing else running: how fast it is, what its threads do, what its batches look like.

Imports Keras, `call`, `stacks` and the backend (for its own way to read a source).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from abreast.backend import current_backend
from abreast.errors import DataError
from abreast.measure.doctor import stacks
from abreast.measure.doctor.call import FitCall, bytes_of, on_host, shapes_of
from abreast.measure.doctor.facts import Reading

_MOST_SECONDS = 2.0
_LEAST_BATCHES = 4
_PEEKED = 2  # batches that Keras looks at when it makes an adapter, which then come at once


class SourceAlone:
    """Reads batches and remembers: `shapes` in order, and the largest `batch`, as NumPy arrays."""

    def __init__(self, call: FitCall) -> None:
        self._call = call
        self._readings: list[Reading] = []
        self.shapes: list[tuple[str, ...]] = []
        self.batch: Any = None

    def first(self) -> Any:
        """The first batch. Raises `DataError` when there is none."""
        self._read(1)
        return self.batch

    def read(self, num_batches: int) -> float:
        """Seconds per batch, from the first to the last of so many."""
        times: list[float] = []
        # With workers batches come in bursts: as many as there are.
        least = max(_LEAST_BATCHES, 2 * (self._call.num_workers or 0))
        reading = stacks.watch(lambda: self._read(max(least, num_batches) + 1, times))
        times = times[_PEEKED - 1 :] if len(times) > _PEEKED else times
        seconds = (times[-1] - times[0]) / max(1, len(times) - 1)
        self._readings.append(replace(reading, seconds=seconds))
        return seconds

    def forget(self) -> None:
        """Drop what was measured: the first reading starts threads and meets a cold cache."""
        self._readings.clear()

    def reading(self) -> Reading:
        """The median of all readings."""
        readings = self._readings
        places = [(each.place, each.place_is_own) for each in readings]
        place, own = max(set(places), key=places.count)
        return Reading(
            num_batches=sum(each.num_batches for each in readings),
            seconds=statistics.median(each.seconds for each in readings),
            busy_cores=statistics.median(each.busy_cores for each in readings),
            active_threads=statistics.median(each.active_threads for each in readings),
            decoding=statistics.median(each.decoding for each in readings),
            place=place,
            place_is_own=own,
            kind=self._call.kind,
            workers=self._call.num_workers,
            setting="PyDataset(workers=...)" if self._call.kind == "py_dataset" else "DataLoader(num_workers=...)",
        )

    def _read(self, num_batches: int, times: list[float] | None = None) -> int:
        deadline = time.perf_counter() + _MOST_SECONDS
        count = 0
        batches = _endless(self._call)
        for batch in batches:
            if times is not None:
                times.append(time.perf_counter())
            self._note(batch)
            count += 1
            if count == num_batches or (count > _LEAST_BATCHES and time.perf_counter() > deadline):
                break
        batches.close()
        return count

    def _note(self, batch: Any) -> None:
        self.shapes.append(shapes_of(batch))
        if self.batch is None or bytes_of(batch) > bytes_of(self.batch):
            self.batch = on_host(batch)


def _endless(call: FitCall) -> Generator[Any, None, None]:
    """Batches of epoch after epoch, as the feed reads them."""
    while True:
        adapter = call.adapter()
        adapter.on_epoch_begin()
        empty = True
        try:
            for batch in current_backend().source(adapter)():
                empty = False
                yield batch
        finally:
            adapter.on_epoch_end()  # ends the workers of a `PyDataset`
        if empty:
            raise DataError("the data source is empty", "give at least one row")
