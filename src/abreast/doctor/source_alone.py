"""Reads the source of a `fit` with nothing else running: its speed, its threads' activity, and the shapes of its batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from abreast.backend import current_backend
from abreast.backend.contract import Placement
from abreast.doctor import stacks
from abreast.doctor.call import FitCall, bytes_of, on_host, rows_of, shapes_of
from abreast.doctor.facts import Reading
from abreast.errors import DataError
from abreast.feed.ahead import Patience
from abreast.feed.batch import HostBatch, names
from abreast.feed.pipeline import WARN_SECONDS
from abreast.stderr import tell

_MOST_SECONDS = 2.0
_LEAST_BATCHES = 4
_PEEKED = 2  # batches that Keras reads when it makes an adapter, and then returns at once


class SourceAlone:
    """Reads batches, and keeps their `shapes` and `rows` in order, and the largest `batch` as NumPy arrays."""

    def __init__(self, call: FitCall, input_timeout: float | None = None) -> None:
        self._call = call
        self._patience = Patience(WARN_SECONDS, input_timeout)
        self._readings: list[Reading] = []
        self.shapes: list[tuple[str, ...]] = []
        self.rows: list[int] = []
        self.batch: Any = None
        self._structure: tuple[Any, ...] = ()
        backend = current_backend()
        self._text = backend.stage(Placement(backend, backend.device_names()[:1])).leaves.text

    @property
    def mean_rows(self) -> float:
        """Mean rows of a batch: over a whole epoch if that is known, else over the batches read."""
        return self._call.mean_rows() or statistics.mean(self.rows)

    def first(self) -> Any:
        """The first batch. Raises `DataError` if there is no batch, or if it does not come within `input_timeout`."""
        self._watch(1, [])
        return self.batch

    def read(self, num_batches: int) -> float:
        """Read `num_batches` batches, fewer if they take long; returns the seconds per batch, from the first to the last."""
        times: list[float] = []
        # Workers deliver batches in bursts of as many batches as there are workers.
        least = max(_LEAST_BATCHES, 2 * (self._call.num_workers or 0))
        reading = self._watch(max(least, num_batches) + 1, times)
        times = times[_PEEKED - 1 :] if len(times) > _PEEKED else times
        seconds = (times[-1] - times[0]) / max(1, len(times) - 1)
        self._readings.append(replace(reading, seconds=seconds))
        return seconds

    def reading(self) -> Reading:
        """The median of all readings except the first, which starts threads and has a cold cache."""
        readings = self._readings[1:] or self._readings
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
            in_processes=self._call.reads_in_processes,
            setting="PyDataset(workers=...)" if self._call.kind == "py_dataset" else "DataLoader(num_workers=...)",
        )

    def _watch(self, num_batches: int, times: list[float]) -> Reading:
        def end(seconds: float) -> DataError:
            message = f"the doctor has waited {seconds:.0f} s for the data source"
            return DataError(message, "find what its next batch waits for, or set a longer input_timeout")

        def say(seconds: float) -> None:
            tell(f"the doctor has waited {seconds:.0f} s for the data source")

        return stacks.watch(lambda: self._read(num_batches, times), self._patience.waiting(say, end))

    def _read(self, num_batches: int, times: list[float]) -> int:
        deadline = time.perf_counter() + _MOST_SECONDS
        count = 0
        batches = _endless(self._call)
        for batch in batches:
            times.append(time.perf_counter())
            self._note(batch)
            count += 1
            if count == num_batches or (count > _LEAST_BATCHES and time.perf_counter() > deadline):
                break
        batches.close()
        return count

    def _note(self, batch: Any) -> None:
        self._check(HostBatch.of(batch, text=self._text))
        self.shapes.append(shapes_of(batch))
        self.rows.append(rows_of(batch))
        if self.batch is None or bytes_of(batch) > bytes_of(self.batch):
            self.batch = on_host(batch)

    def _check(self, batch: HostBatch) -> None:
        self._structure = self._structure or batch.structure
        if batch.structure != self._structure:
            raise DataError(
                f"a batch has the arrays {names(batch.structure)}, the first one had {names(self._structure)}",
                "every batch of a source needs the same structure",
            )


def _endless(call: FitCall) -> Generator[Any, None, None]:
    """Batches of one epoch after another, read as the feed reads them."""
    adapter = call.adapter()
    source = current_backend().source(adapter)
    while True:
        adapter.on_epoch_begin()
        empty = True
        try:
            for batch in source():
                empty = False
                yield batch
        finally:
            adapter.on_epoch_end()  # ends the workers of a `PyDataset`
        if empty:
            raise DataError("the data source is empty", "give at least one row")
