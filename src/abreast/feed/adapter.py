"""The data adapter of a staged source: its iterators return batches in plain Keras's order.

Order, epochs and shuffling come from the Keras data adapter that plain `fit` would have used. Batches are read ahead within an
epoch, never past its end. So whatever happens between epochs happens between the same batches as with plain Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from types import GeneratorType
from typing import Any, Protocol

import keras

from abreast.errors import DataError
from abreast.feed.batch import HostBatch, names
from abreast.feed.between_steps import BetweenSteps
from abreast.feed.form import batch_of, form_of
from abreast.feed.habits import Habits
from abreast.feed.in_process import drawn_per_batch
from abreast.feed.one_ahead import OneAhead
from abreast.feed.own_batches import OwnBatches
from abreast.feed.pace import Pace
from abreast.feed.parts import COMPARED_ROWS
from abreast.feed.pipeline import BatchPipeline, Taken
from abreast.feed.shared_random import host_generators
from abreast.feed.source import Source, with_held
from abreast.feed.workers import end_workers
from abreast.keras_private.data_adapters import (
    NUM_BATCHES_FOR_TENSOR_SPEC,
    ArrayDataAdapter,
    DataAdapter,
    TFDatasetAdapter,
    stored_rows,
)
from abreast.staging import DEFAULT_STAGING, Stage, Staged, Staging
from abreast.stderr import tell_once


class PlaceKeeper(Protocol):
    """Keeps the place in a source for checkpoints, and begins there after a restart."""

    steps_done: int  # steps of the next epoch that an earlier run has done

    @property
    def is_due(self) -> bool:
        """Whether the next epoch begins at the place that an earlier run reached."""
        ...

    def opening(self) -> AbstractContextManager[None]:
        """A context for the opening of the source."""
        ...

    def opened(self, adapter: DataAdapter) -> None:
        """Called when the source is open, before Keras calls any of its hooks."""
        ...

    def begin(self, adapter: DataAdapter, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """An iterator of the source, from its start or from the place that an earlier run reached."""
        ...


@dataclass(frozen=True)
class _Open:
    adapter: DataAdapter
    begin: Callable[[], Iterator[Any]]
    staging: Staging
    habits: Habits
    pace: Pace
    keras_reads_ahead: bool


class Feed(DataAdapter):  # type: ignore[misc]  # Keras has no types
    """A Keras data adapter that passes staged batches to a step function, and plain batches to Keras.

    The source is opened when Keras first asks for something, because plain Keras opens a validation source after the first epoch.
    """

    def __init__(
        self,
        source: Source,
        stage: Stage[Any],
        staging: Staging,
        between_steps: BetweenSteps,
        pace: Callable[[], Pace] = Pace,
    ) -> None:
        self.stage = stage
        self.own_batches = None if stage.processes is None else OwnBatches(stage.processes, stored=self._stored)
        self.staging = staging
        self.structure: tuple[Any, ...] | None = None
        self.form: Any = None  # of the first batch, see `form.py`
        self.keep_last = False
        self.may_be_empty = False
        self.on_first_batch: Callable[[int], None] | None = None  # called with its number of rows
        self.last_batch: HostBatch | None = None  # of the present iterator, if `keep_last`
        self.keeper: PlaceKeeper | None = None
        self._source = source
        self._between_steps = between_steps
        self._pace = pace
        self._iterator: FeedIterator | None = None
        self._one_ahead: OneAhead | None = None
        self._reported_batches: int | None = None

    @cached_property
    def _open(self) -> _Open:
        if self.keeper is None:
            return self._opened()
        with self.keeper.opening():
            opened = self._opened()
        self.keeper.opened(opened.adapter)
        return opened

    def _opened(self) -> _Open:
        adapter = self._source.open()
        if adapter.num_batches == 0 and not self.may_be_empty and self.own_batches is None:
            raise DataError("the data source is empty", "give at least one row")
        habits = Habits(adapter, self.staging, self.stage.leaves, self._between_steps.model)
        self._between_steps.judge(self._source, habits)
        # With `input_timeout` the source needs a thread of its own; otherwise it runs where plain Keras runs it.
        inline = habits.between and self.staging.input_timeout is None
        staging = replace(self.staging, prefetch=0) if inline else self.staging
        # Only arrays: other sources may run user code that depends on its thread, or may become slow later.
        measures = isinstance(adapter, ArrayDataAdapter) and staging == DEFAULT_STAGING
        may_see = habits.runs_here or not isinstance(adapter, (ArrayDataAdapter, TFDatasetAdapter))
        ahead = may_see and self.stage.keras_reads_ahead(adapter)
        pace = self._pace() if measures else Pace(measures=False)
        return _Open(adapter, self._source.begin(adapter), staging, habits, pace, ahead)

    @property
    def adapter(self) -> DataAdapter:
        return self._open.adapter

    @property
    def source(self) -> Any:
        return self._source.x

    @property
    def is_open(self) -> bool:
        return "_open" in vars(self)

    @property
    def goes_on_over_epochs(self) -> bool:
        """Whether an epoch continues where the last one ended, not at the start of the source."""
        return self._source.steps_per_epoch is not None or self.goes_on_over_fits

    @property
    def goes_on_over_fits(self) -> bool:
        """Whether the source is a generator: each reader continues where the last one ended."""
        return isinstance(self._source.x, GeneratorType)

    @property
    def num_taken(self) -> int:
        """Number of batches taken from the present iterator."""
        return 0 if self._iterator is None else self._iterator.pipeline.num_taken

    @property
    def num_held(self) -> int:
        """Number of batches that plain Keras has read from the present iterator and not taken: 0 or 1."""
        if self._iterator is None or self._one_ahead is None:
            return 0
        return max(0, self._one_ahead.num_read_by_keras(self.num_taken) - self.num_taken)

    @property
    def held_drawn_from(self) -> Any:
        """The states of `host_generators` before the held batch was read; None if a thread reads ahead."""
        if self._iterator is None or self._one_ahead is None or self._iterator.pipeline.is_ahead:
            return None
        return self._one_ahead.state_before_read

    @property
    def drawn_ahead(self) -> tuple[str, ...]:
        """The global generators from which the source has drawn for batches not yet taken."""
        if self._iterator is None or not self._iterator.pipeline.is_ahead:
            return ()
        draws = self._open.habits.draws
        return drawn_per_batch(self.adapter) or (() if draws is None else draws.by_source)

    @property
    def checksum(self) -> int | None:
        """Checksum of the present iterator's last batch; None if another read may differ, or if only a part was read."""
        batch = self.last_batch
        return None if batch is None or batch.digest is not None or self._open.habits.between else batch.compared

    def first_batch(self) -> HostBatch:
        """A batch to build a model: zeros if the form is known, else a batch read for this."""
        if self.form is not None:
            return HostBatch.of(batch_of(self.form), text=True)
        tell_once(_READ_TO_BUILD)
        batch = iter(self).take().host
        self._close_iterator()
        self.on_epoch_end()
        return batch

    @property
    def users_code_between_steps(self) -> bool:
        """Whether the user's callbacks act on batches, or the source is read between steps."""
        return bool(self._between_steps.callbacks) or self._open.habits.between

    @property
    def state_is_read_between_steps(self) -> bool:
        return self._between_steps.saves or self.users_code_between_steps

    def __iter__(self) -> FeedIterator:
        return self._begin(self._open.keras_reads_ahead)

    def _begin(self, one_ahead: bool) -> FeedIterator:
        self._close_iterator()
        self.last_batch = None
        if self.own_batches is not None:
            self.own_batches.begin()
        opened = self._open
        batches = opened.begin() if self.keeper is None else self.keeper.begin(opened.adapter, opened.begin)
        if one_ahead:
            may_draw = self.keeper is not None and opened.habits.runs_here
            before_read = host_generators if may_draw else lambda: None
            batches = self._one_ahead = OneAhead(batches, self.stage.leaves, before_read)
        pipeline = BatchPipeline(batches, self.check, self.stage, opened.staging, opened.habits, opened.pace)
        self._iterator = FeedIterator(self, pipeline)
        self._permit(self._iterator)
        return self._iterator

    def _stored(self) -> Any:
        return stored_rows(self.adapter, COMPARED_ROWS) if isinstance(self.adapter, ArrayDataAdapter) else None

    def check(self, batch: HostBatch) -> HostBatch:
        """The batch; raises `DataError` if its structure differs from the first batch's."""
        if self.structure is None:
            self.structure, self.form = batch.structure, form_of(batch.data)
            if self.own_batches is None:
                self.begins(batch.rows)
        elif batch.structure != self.structure:
            raise DataError(
                f"a batch has the arrays {names(batch.structure)}, the first one had {names(self.structure)}",
                "every batch of a source needs the same structure",
            )
        return batch

    def begins(self, rows: int) -> None:
        """Report the number of rows of the first global batch, once."""
        if self.on_first_batch is not None:
            self.on_first_batch(rows)
            self.on_first_batch = None

    def close(self) -> None:
        """End the present iterator's threads and the source's workers, also in the middle of an epoch."""
        if not self.is_open:
            return
        self._close_iterator()
        if (enqueuer := getattr(self.adapter, "enqueuer", None)) is not None:
            end_workers(enqueuer)

    def _close_iterator(self) -> None:
        if self._iterator is not None:
            num_by_keras, pipeline, one_ahead = self._num_read_by_keras, self._iterator.pipeline, self._one_ahead
            self._iterator = self._one_ahead = None
            unread = pipeline.close()
            held = [] if one_ahead is None else one_ahead.left()
            self._source.give_back(with_held(unread, held), num_by_keras, self._open.habits.runs_here)

    @property
    def _num_read_by_keras(self) -> int:
        """Number of batches that plain Keras has read, of those not taken."""
        peeked = NUM_BATCHES_FOR_TENSOR_SPEC - self.num_taken if self.goes_on_over_fits else 0
        return max(self.num_held, peeked)

    def get_numpy_iterator(self) -> FeedIterator:
        return iter(self)

    def get_jax_iterator(self, super_batch: int | None = None) -> FeedIterator:
        """For Keras 3.16, which takes one batch to build a model, and reads none ahead of it."""
        return self._begin(one_ahead=False)

    def get_torch_dataloader(self) -> FeedIterator:
        return iter(self)

    def get_tf_dataset(self) -> Feed:
        return self

    @property
    def num_batches(self) -> Any:
        """The number of batches. Keras keeps it until it asks again; a `PyDataset` may change its length between epochs."""
        number = self.adapter.num_batches
        if self.own_batches is not None:
            number = self.own_batches.num_batches(None if number is None else int(number), self.may_be_empty)
        self._reported_batches = number
        return number

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
        if self._iterator is not None:
            self._permit(self._iterator)
        self.adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self.adapter.on_epoch_end()

    def _permit(self, iterator: FeedIterator) -> None:
        """Allow an iterator to read the batches that Keras will ask for in one epoch. Called when the epoch begins."""
        self._open.habits.begin_epoch()
        steps = self._source.steps_per_epoch
        if limit := keras.config.max_steps_per_epoch():
            steps = min(steps or limit, limit)
        steps = steps or self._reported_batches
        if steps is not None:
            steps -= 0 if self.keeper is None else self.keeper.steps_done
            iterator.pipeline.permitted = iterator.pipeline.num_taken + steps


class FeedIterator:
    """Batches of one source. `next` returns a plain batch to Keras, or a `Handed` that Keras passes to a step."""

    def __init__(self, feed: Feed, pipeline: BatchPipeline[Any]) -> None:
        self.pipeline = pipeline
        self._has_ended = False  # whether this process's source has ended; others may continue
        self.hands_staged = False  # whether `next` returns a `Handed`
        self._feed = feed

    def __iter__(self) -> FeedIterator:
        return self

    def __next__(self) -> Any:
        handed = Handed(self)
        return handed if self.hands_staged else next(handed)

    @property
    def state_is_read_between_steps(self) -> bool:
        """Whether any code reads or assigns variables between two steps."""
        return self._feed.state_is_read_between_steps

    @property
    def adapter(self) -> DataAdapter:
        """Keras's own adapter of the source."""
        return self._feed.adapter

    @property
    def source(self) -> Any:
        """The data source that the user passed."""
        return self._feed.source

    def take(self) -> Taken[Any]:
        own_batches = self._feed.own_batches
        taken = self.pipeline.take() if own_batches is None else self._take_own(own_batches)
        if self._feed.keep_last:
            self._feed.last_batch = taken.host
        return taken

    def _take_own(self, own_batches: OwnBatches) -> Taken[Any]:
        """The next batch of this process, or a stand-in row if only other processes still have rows."""
        taken, error = None, None
        try:
            taken = None if self._has_ended else self.pipeline.take()
        except StopIteration:
            self._has_ended = True
        except Exception as raised:
            error = raised
        counts = own_batches.agree(None if taken is None else taken.host, error, self._steps_with_as_many_rows())
        if not any(counts):
            raise StopIteration
        self._feed.begins(sum(counts))
        return replace(taken or Taken(own_batches.stand_in(), None), counts=counts)

    def _steps_with_as_many_rows(self) -> int:
        """The number of whole batches left in arrays, this one included; 1 for other sources, whose batch sizes may vary."""
        adapter = self.adapter
        if not isinstance(adapter, ArrayDataAdapter):
            return 1
        return max(1, int(adapter.num_batches) - bool(adapter.has_partial_batch) - self.pipeline.num_taken + 1)


class Handed:
    """A batch that Keras passes on: a step calls `take`, or Keras reads it with `next` to build a model.

    With `steps_per_execution`, later steps take the batches after it, without code of the user's between them.
    """

    def __init__(self, iterator: FeedIterator) -> None:
        self._iterator = iterator
        self._taken: Taken[Any] | None = iterator.take()
        # Whether the user's code may run before and after the step of this batch.
        self.after_users_code = self.before_users_code = True

    @property
    def adapter(self) -> DataAdapter:
        """Keras's own adapter of the source."""
        return self._iterator.adapter

    @property
    def state_is_read_between_steps(self) -> bool:
        """Whether any code reads or assigns variables between two steps."""
        return self._iterator.state_is_read_between_steps

    def __iter__(self) -> Handed:
        return self

    def __next__(self) -> Any:
        assert self._taken is not None
        return self._taken.host.data

    def take(self) -> Taken[Any]:
        if self._taken is None:
            self._taken, self.after_users_code = self._iterator.take(), False
        taken, self._taken = self._taken, None
        self._iterator.pipeline.look_ahead()
        return self._iterator.pipeline.stage(taken)

    def read_early(self) -> None:
        """See `BatchPipeline.read_early`."""
        self._iterator.pipeline.read_early()


_READ_TO_BUILD = (
    "a batch was read to build the model: a data source that this changes is not exactly what would have followed\n"
    "hint: give batches as plain tuples, lists and dictionaries"
)


class DoneStep:
    """Replaces the batch of a step that an earlier run has done: the step is not run again."""


def take(batches: Iterator[Any], stage: Stage[Staged], kind: str = "train") -> Taken[Staged]:
    """The next batch of a `FeedIterator`, or of any iterator (`train_on_batch` passes a generator of its own).

    Called by steps of a `kind`. From the first call on, the feed works ahead.
    """
    if isinstance(batches, FeedIterator):
        return Handed(batches).take()
    if isinstance(batches, Handed):
        return batches.take()
    batch = next(batches)
    if isinstance(batch, Handed):
        return batch.take()
    host = HostBatch.of(batch, text=stage.leaves.text)
    if stage.processes is None:
        return Taken(host, stage.put(host))
    counts = OwnBatches(stage.processes, may_repeat=kind == "predict").agree(host)
    return Taken(host, stage.put(host), counts)
