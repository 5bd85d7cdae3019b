"""Sources whose rows depend on their index alone: a process reads only its own rows.

These are a `DataLoader` over such a data set (`torch_loader.py`) and batches of a `MapDataset` (`grain_batches.py`). All
processes also read and compare a few rows of each batch. A compared row that is also a process's own is read twice: different
values show that the rows depend on something else. Imports no framework.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from abreast.arrays import map_arrays
from abreast.errors import DataError
from abreast.feed import grain_batches, torch_loader
from abreast.feed.parts import COMPARED_ROWS, Part, digest
from abreast.keras_private.data_adapters import TorchDataLoaderAdapter, of_other_source, source_of
from abreast.shares import OwnRows


@dataclass(frozen=True)
class Reading:
    """The rows that a process reads of batch `number` of `rows` rows: a few that all processes compare, and its own, `held`."""

    number: int
    rows: int
    held: range
    order: int = 0  # a checksum of the indices of all rows

    @property
    def compared(self) -> range:
        """Some rows of an epoch's first batch, and one of each later batch."""
        if self.number == 0:
            return range(0, self.rows, max(1, self.rows // COMPARED_ROWS))
        first = self.number % self.rows
        return range(first, first + 1)

    @property
    def places(self) -> tuple[int, ...]:
        return (*self.compared, *self.held)

    def part(self, data: Any) -> Part:
        """The part of the batch; `data` has the rows at `places`. Raises `DataError` if two reads of a row differ."""
        count = len(self.compared)
        compared, held = _rows(data, 0, count), _rows(data, count, count + len(self.held))
        for place, row in enumerate(self.compared):
            again = row - self.held.start
            if row in self.held and digest(_rows(compared, place, place + 1)) != digest(_rows(held, again, again + 1)):
                raise _changing(row, self.number)
        return Part(held, self.rows, self.held, digest(compared, zlib.crc32(b"%d %d" % (self.rows, self.order))))


@dataclass(frozen=True)
class OwnReading:
    """For each batch of an epoch, `adapter` yields the rows at the places of the next reading."""

    adapter: Any
    readings: Iterator[Reading]

    def parts(self, batches: Iterator[Any]) -> Iterator[Part]:
        """The parts, one for each batch of `adapter`."""
        for data in batches:
            yield next(self.readings).part(data)


def own_reading(adapter: Any, own_rows: OwnRows) -> OwnReading | None:
    """One epoch of a source that is read by index; None for a source that must be read whole."""
    if isinstance(adapter, TorchDataLoaderAdapter):
        return _of_loader(adapter, own_rows)
    batches = grain_batches.of(source_of(adapter))
    if batches is None:
        return None

    def reading(number: int) -> Reading:
        rows = batches.rows(number)
        return Reading(number, rows, own_rows(rows))

    own = batches.with_places(lambda number: reading(number).places)
    return OwnReading(of_other_source(adapter, own), map(reading, range(batches.number)))


def _of_loader(adapter: Any, own_rows: OwnRows) -> OwnReading | None:
    loader = source_of(adapter)
    if not torch_loader.reads_by_index(loader):
        torch_loader.tell_why_whole(loader)
        return None
    begun: list[Reading] = []  # of batches whose indices the loader has taken, but not yet returned the rows

    def order() -> Iterator[list[Any]]:
        for number, indices in enumerate(loader.batch_sampler):
            indices = list(indices)
            checksum = zlib.crc32(repr(indices).encode()) if all(type(each) is int for each in indices) else 0
            begun.append(Reading(number, len(indices), own_rows(len(indices)), checksum))
            yield [indices[place] for place in begun[-1].places]

    own = torch_loader.with_order(loader, order)
    return OwnReading(of_other_source(adapter, own), iter(lambda: begun.pop(0), None))


def _rows(data: Any, start: int, stop: int) -> Any:
    return map_arrays(lambda leaf: leaf[start:stop], data)


def _changing(row: int, batch: int) -> DataError:
    return DataError(
        f"row {row} of batch {batch} has other values when the data set is asked again for the same index",
        "take abreast_by_index off the data set, so that every process reads all rows; or let the data set draw from a generator "
        "that it seeds with the index",
    )
