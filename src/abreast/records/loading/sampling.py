"""The samples of each batch: the order of an epoch, its global batches, and the rows of each batch that a process reads.

All of it is a function of the settings, the epoch and the number of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.loading.draws import permutation
from abreast.records.reading.reader import Numbers
from abreast.shares import Shares


@dataclass(frozen=True)
class Place:
    """The place of a batch: its epoch, and its number in the epoch."""

    epoch: int
    batch: int


@dataclass(frozen=True)
class Sampling:
    """The rule that divides samples into batches. `batch_size`: rows of all shards; shard p reads the p-th part of each."""

    num_samples: int
    batch_size: int
    seed: int
    shuffle: bool
    drop_remainder: bool
    shard: int = 0
    num_shards: int = 1

    def __post_init__(self) -> None:
        if not self.num_samples:
            raise DataError("the data set is empty", "pack at least one image")
        for name in ("batch_size", "num_shards"):
            if not _is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise DataError(f"{name}={getattr(self, name)!r} is not allowed", "give a whole number above 0")
        if not _is_whole(self.shard) or not 0 <= self.shard < self.num_shards:
            raise DataError(
                f"shard={self.shard!r} of {self.num_shards} is not allowed", "count shards from 0, like ranks"
            )
        if self.drop_remainder and self.batch_size > self.num_samples:
            what = f"batch_size={self.batch_size} is more than the {self.num_samples} samples, so that all are dropped"
            raise DataError(what, "give a smaller batch_size, or drop_remainder=False")
        smallest = self.batch_size if self.drop_remainder else self._rows(self.num_batches - 1)
        if smallest < self.num_shards:
            what = f"a batch of {smallest} rows leaves some of {self.num_shards} shards without any"
            raise DataError(what, "give drop_remainder=True, another batch_size, or fewer shards")

    @property
    def num_batches(self) -> int:
        whole, rest = divmod(self.num_samples, self.batch_size)
        return whole if self.drop_remainder or not rest else whole + 1

    def positions(self, batch: int) -> range:
        """The positions of this shard's rows of a batch in the order of the epoch."""
        rows = Shares(self._rows(batch), (1,) * self.num_shards).rows_of(self.shard)
        begin = batch * self.batch_size
        return range(begin + rows.start, begin + rows.stop)

    def order(self, epoch: int) -> Numbers:
        """The number of the sample at each position."""
        if self.shuffle:
            return permutation(self.seed, epoch, self.num_samples)
        return np.arange(self.num_samples)

    def _rows(self, batch: int) -> int:
        return min(self.batch_size, self.num_samples - batch * self.batch_size)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
