"""Any Keras data source as global batches on the host, and their cutting into one shard per device.

Order, epochs and shuffling stay those of the Keras data adapter that plain `fit` would have used. Moving shards to devices
is the backend's part. Imports Keras, NumPy and `errors`; no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from keras import tree
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from abreast.errors import DataError


@dataclass(frozen=True)
class HostBatch:
    """One global batch as its source gave it: `data` is `(x, y, sample_weight)` or a shorter tuple, all of `rows` rows."""

    data: Any
    rows: int
    structure: tuple[Any, ...] = ()

    @staticmethod
    def of(data: Any) -> HostBatch:
        """Wrap a batch; raises `DataError` when it is empty or its arrays have different numbers of rows."""
        rows: int | None = None
        structure = []
        for path, leaf in tree.flatten_with_path(data):
            structure.append((path, leaf is None))
            if leaf is None:
                continue
            shape = getattr(leaf, "shape", None)
            if shape is None or len(shape) == 0:
                raise DataError(
                    f"the batch holds {leaf!r} at {path}, which has no rows",
                    "give arrays whose first axis is the batch",
                )
            if rows is None:
                rows = int(shape[0])
            elif int(shape[0]) != rows:
                raise DataError(
                    f"the batch holds arrays of {rows} and of {int(shape[0])} rows (at {path})",
                    "inputs, targets and sample weights need the same number of rows",
                )
        if not rows:
            raise DataError("the data source gave a batch without rows", "check its length, and what it yields")
        return HostBatch(data, rows, tuple(structure))

    def cut(self, num_shards: int) -> list[Any]:
        """One view per shard. With fewer rows than shards, an empty shard repeats the first row (see `row_counts`)."""
        shards, start = [], 0
        for count in row_counts(self.rows, num_shards):
            first, last = (start, start + count) if count else (0, 1)
            shards.append(self.rows_between(first, last))
            start += count
        return shards

    def rows_between(self, first: int, last: int) -> Any:
        return tree.map_structure(lambda leaf: None if leaf is None else leaf[first:last], self.data)


def _names(structure: tuple[Any, ...]) -> str:
    return "[" + ", ".join("/".join(map(str, path)) or "x" for path, missing in structure if not missing) + "]"


def row_counts(rows: int, num_shards: int) -> tuple[int, ...]:
    """Rows of each shard, larger ones first: 98 rows on 4 are 25, 25, 24, 24."""
    quotient, remainder = divmod(rows, num_shards)
    return tuple(quotient + (index < remainder) for index in range(num_shards))


class Feed(DataAdapter):  # type: ignore[misc]  # Keras has no types
    """A Keras data adapter that hands a step function whole batches to cut, and lets Keras see them as its own."""

    def __init__(self, adapter: DataAdapter, source: Callable[[], Iterator[Any]]) -> None:
        if adapter.num_batches == 0:
            raise DataError("the data source is empty", "give at least one row")
        self.adapter = adapter
        self.source = source
        self.structure: tuple[Any, ...] | None = None
        self.keep_last = False
        self.last_batch: HostBatch | None = None

    def __iter__(self) -> FeedIterator:
        return FeedIterator(self, self.source())

    def check(self, batch: HostBatch) -> HostBatch:
        """The batch; raises `DataError` when it is built otherwise than the first one."""
        if self.structure is None:
            self.structure = batch.structure
        elif batch.structure != self.structure:
            raise DataError(
                f"a batch has the arrays {_names(batch.structure)}, the first one had {_names(self.structure)}",
                "every batch of a source needs the same structure",
            )
        if self.keep_last:
            self.last_batch = batch
        return batch

    def get_numpy_iterator(self) -> FeedIterator:
        return iter(self)

    def get_jax_iterator(self) -> FeedIterator:
        return iter(self)

    def get_torch_dataloader(self) -> FeedIterator:
        return iter(self)

    def get_tf_dataset(self) -> Feed:
        return self

    @property
    def num_batches(self) -> Any:
        return self.adapter.num_batches

    @property
    def batch_size(self) -> Any:
        return self.adapter.batch_size

    @property
    def has_partial_batch(self) -> Any:
        return self.adapter.has_partial_batch

    @property
    def partial_batch_size(self) -> Any:
        return self.adapter.partial_batch_size

    def on_epoch_begin(self) -> None:
        self.adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self.adapter.on_epoch_end()


class FeedIterator:
    """One epoch. `next` gives Keras the plain batch (it looks at one to build a model); `take` gives a step its `HostBatch`."""

    def __init__(self, feed: Feed, batches: Iterator[Any]) -> None:
        self._feed = feed
        self._batches = batches

    def __iter__(self) -> FeedIterator:
        return self

    def __next__(self) -> Any:
        return self.take().data

    def take(self) -> HostBatch:
        return self._feed.check(HostBatch.of(next(self._batches)))


def take(iterator: Any) -> HostBatch:
    """The next batch of a `FeedIterator`, or of any iterator (`train_on_batch` brings a generator of its own)."""
    return iterator.take() if isinstance(iterator, FeedIterator) else HostBatch.of(next(iterator))
