"""`Shares`: the rows of a global batch that belong to each process, device and part of a device. Only this module divides rows.

Not here: cutting arrays. Every framework does so in its own way (`feed/batch.py`, `backend/*/staging.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

OwnRows = Callable[[int], range]  # number of rows of a global batch -> the rows that this process reads, at least one


@dataclass(frozen=True)
class Shares:
    """The rows of one global batch, cut in order into one share per device.

    `devices` holds the number of devices of each process, by rank. Each device works on `parts` parts (virtual devices).
    Parts differ by one row at most, and larger ones come first: 98 rows in 4 parts are 25, 25, 24 and 24.
    """

    rows: int
    devices: tuple[int, ...]
    parts: int = 1

    @property
    def num_devices(self) -> int:
        return sum(self.devices)

    @cached_property
    def part_counts(self) -> tuple[int, ...]:
        """Rows of each part, by device and then by part."""
        quotient, remainder = divmod(self.rows, self.num_devices * self.parts)
        return tuple(quotient + (index < remainder) for index in range(self.num_devices * self.parts))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Rows of each device."""
        if self.parts == 1:
            return self.part_counts
        starts = range(0, len(self.part_counts), self.parts)
        return tuple(sum(self.part_counts[start : start + self.parts]) for start in starts)

    @cached_property
    def part_slices(self) -> tuple[slice, ...]:
        """Rows that each part reads. A part without rows reads the first row as a stand-in, which has no effect."""
        return _slices(self.part_counts)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Rows that each device reads. A device without rows reads the first row as a stand-in, which has no effect."""
        return _slices(self.counts)

    def devices_of(self, rank: int) -> range:
        """The numbers of one process's devices, in the order of `counts`."""
        first = sum(self.devices[:rank])
        return range(first, first + self.devices[rank])

    def rows_of(self, rank: int) -> range:
        """The rows of all devices of one process; empty if they have none."""
        devices = self.devices_of(rank)
        first = sum(self.counts[: devices.start])
        return range(first, first + sum(self.counts[devices.start : devices.stop]))

    @property
    def padded_rows(self) -> int:
        """The smallest multiple of the number of devices that is at least `rows`."""
        return -(-self.rows // self.num_devices) * self.num_devices


def counts_of_own(rows: tuple[int, ...], devices: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of each device, if each process divides its own `rows[rank]` rows among its devices."""
    return tuple(count for own, number in zip(rows, devices, strict=True) for count in shares_of(own, number).counts)


@lru_cache(maxsize=256)
def shares_of(rows: int, num_devices: int) -> Shares:
    """Shares of the devices of one process. Cached, because steps ask for the same few numbers of rows."""
    return Shares(rows, (num_devices,))


def _slices(counts: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(end - count, end) if count else slice(0, 1) for end, count in zip(accumulate(counts), counts, strict=True)
    )
