"""The path of one iterator's batches from source to devices: one thread reads them, another stages them, a step takes them.

At most `depth` batches wait on the devices, and one more on the host. Only batches that a step may ask for are read. Not here:
epochs and the adapter that Keras sees (`adapter.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any, Generic, cast

from abreast import apart_from_sources, spans, users_line
from abreast.errors import DataError
from abreast.feed.ahead import Ahead, Patience
from abreast.feed.batch import HostBatch, Unread
from abreast.feed.habits import Habits
from abreast.feed.pace import Pace
from abreast.feed.parts import Part
from abreast.feed.turns import taking
from abreast.staging import Stage, Staged, Staging
from abreast.stderr import tell

WARN_SECONDS = 30.0


@dataclass(slots=True)  # frozen ones take three times as long to make, at every step
class Taken(Generic[Staged]):
    """A batch for a step: as its source returned it, and as the backend staged it (None: not yet staged).

    `counts`: number of rows of each process in this step, by rank, if each process gives rows of its own.
    """

    host: HostBatch
    staged: Staged
    counts: tuple[int, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether this process holds all rows of the global batch."""
        return self.counts is None and self.host.rows_here == self.host.rows


class BatchPipeline(Generic[Staged]):
    """Batches of one iterator. Steps may ask for the first `permitted` of them."""

    def __init__(
        self,
        batches: Iterator[Any],
        check: Callable[[HostBatch], HostBatch],
        stage: Stage[Staged],
        staging: Staging,
        habits: Habits,
        pace: Pace,
    ) -> None:
        self.permitted: float = float("inf")
        self.num_taken = self._num_finished = self._num_read = 0
        self._num_inline = 0  # batches that the training thread read
        self._batches = batches
        self._check = check
        self._stage = stage
        self._staging = staging
        self._habits = habits
        self._pace = pace
        pace.begin()
        habits.reuse.begin()
        self._depth = staging.most
        self._largest = 0
        self._looks_ahead = False
        self._reads = False
        self._wanted = -1  # number of the batch that a step last waited for
        self._closed = False
        self._turns = threading.Condition()
        self._given: Taken[Staged | None] | None = None
        self._early: Unread | None = None
        self._patience = Patience(WARN_SECONDS, staging.input_timeout)
        self._look_seconds = min(1.0, (staging.input_timeout or WARN_SECONDS) / 4)
        self._reader = Ahead(self._read, "abreast-reader")
        self._stager = Ahead(self._read_and_put, "abreast-stager")

    @property
    def is_ahead(self) -> bool:
        """Whether the source has read, or is reading, batches that are not yet taken."""
        return self._reader.num_asked > self.num_taken - self._num_inline

    def take(self) -> Taken[Staged | None]:
        """The next batch. An iterator's first batch is not yet staged, because Keras may only read it to build a model.

        So each epoch begins with one batch that the training thread stages.

        Raises `DataError`, `StopIteration`, and the source's own exceptions.
        """
        start = perf_counter_ns()
        self._num_finished = self.num_taken
        self._pace.step(start)
        self._let_read()
        taken = self._next()
        if spans.LISTENERS:
            spans.leave(spans.MAIN, "wait", start, perf_counter_ns(), batch=self.num_taken)
        self.num_taken += 1
        self._given = taken
        return taken

    def _next(self) -> Taken[Staged | None]:
        """The next batch: one that threads have prepared, or one that this thread reads."""
        if self._early is not None:
            (early, error), self._early = self._early, None
            if error is not None:
                raise error
            return Taken(cast(HostBatch, early), None)
        if self.num_taken == 0 and self._pace.measures:  # a call of one step needs no threads
            host = self._read_inline()
            self._measure(host)
            return Taken(host, None)
        inline = self._is_inline
        if not self._staging.most or (inline and not self._stager.waits and not self._reader.waits):
            return Taken(self._read_inline(), None)
        if self.num_taken == 0 or (inline and not self._stager.waits):
            host = self._reader.take(self._waiting(), self._look_seconds)
            self._measure(host)
            return Taken(host, None)
        return self._stager.take(self._waiting(), self._look_seconds)

    @property
    def _is_inline(self) -> bool:
        """Whether the training thread reads. The first batches of a call are read by a thread, which learns from them."""
        return self._pace.inline and self._habits.known

    def read_early(self) -> None:
        """Read the next batch in the training thread, while its step waits for other devices.

        Only a batch that this thread reads anyway, after the step. `take` returns it, or raises the exception of reading it.
        """
        habits = self._habits
        threads_read = not self._is_inline or self._stager.waits or self._reader.waits
        if threads_read or habits.between or self._early is not None or self._closed:
            return
        if self.num_taken < self.permitted:
            try:
                self._early = self._read_inline(), None
            except Exception as error:  # it must not end the step that runs
                self._early = None, error

    def _read_inline(self) -> HostBatch:
        start = perf_counter_ns()
        host = self._read(inline=True)
        self._num_inline += 1
        self._pace.has_read(perf_counter_ns() - start)
        return host

    def stage(self, taken: Taken[Staged | None]) -> Taken[Staged]:
        """The batch that was taken last, staged for a step."""
        self._given = None
        if taken.staged is not None:
            return cast("Taken[Staged]", taken)
        return Taken(taken.host, self._put(taken.host, spans.MAIN, self.num_taken - 1), taken.counts)

    def look_ahead(self) -> None:
        """Let the threads prepare the batches of later steps while the present step runs."""
        habits = self._habits
        if not self._staging.most or self._pace.inline or habits.between or not habits.known:
            return
        self._looks_ahead = True
        if self._depth < self._staging.most and not habits.reported_budget:
            self._report_budget()
        num_elsewhere = self.num_taken - self._stager.num_taken  # the first batch, for example, was not staged ahead
        self._stager.ask(int(min(self.permitted - num_elsewhere, self._stager.num_taken + self._depth)))

    def close(self) -> list[Unread]:
        """End the threads and discard staged batches; return the batches read and not taken, or raised exceptions."""
        self._let_read(closed=True)
        reader_ended = self._reader.close()
        stager_ended = self._stager.close()
        staged = list(self._stager.left())
        for taken, _ in staged:
            if taken is not None:
                self._discard(taken)
        if self._given is not None:
            self._discard(self._given)
            self._given = None
        if reader_ended:
            self._batches = iter(())  # drop the iterator: a source's threads may live as long as it does
        if not (reader_ended and stager_ended):
            where = self._reader.where()
            tell(
                f"the data source has not returned{f' ({where})' if where else ''}; its thread ends when the source returns"
            )
        unread: list[Unread] = [] if self._early is None else [self._early]
        self._early = None
        unread += [(None if taken is None else taken.host, error) for taken, error in staged]
        return unread + list(self._reader.left())

    def wait(self, why: str) -> None:
        """Called in the reader's thread: wait until the step of the batch that is being read asks for it."""
        with apart_from_sources.waiting(), self._turns:
            self._turns.wait_for(lambda: self._closed or self._wanted >= self._num_read)
        self._habits.read_between(why)

    def concerns(self, variable: Any) -> bool:
        return self._habits.concerns(variable)

    def _let_read(self, closed: bool = False) -> None:
        """Let the reader continue if it waits for the present step."""
        with self._turns:
            self._wanted, self._closed = self.num_taken, closed
            self._turns.notify()

    def _discard(self, taken: Taken[Staged | None]) -> None:
        if taken.staged is not None:
            self._stage.discard(taken.staged)

    def _waiting(self) -> Callable[[], None]:
        return self._patience.waiting(self._say, self._timeout)

    def _read(self, inline: bool = False) -> HostBatch:
        """The next batch of the source; runs in the reader's thread, or, `inline`, in the training thread."""
        start = perf_counter_ns()
        self._reads = True
        try:
            data = next(self._batches) if inline else self._next_watched()
        finally:
            self._reads = False
        host = self._check(HostBatch.of(data, text=self._stage.leaves.text))
        if spans.LISTENERS:
            track = spans.MAIN if inline else spans.READER
            spans.leave(track, "read", start, perf_counter_ns(), batch=self._num_read)
        self._num_read += 1
        return host

    def _next_watched(self) -> Any:
        """The next data of the source; learns the source's habits from the read."""
        habits = self._habits
        learns = not habits.known and self._num_read > 0
        before = self._stage.drawn() if learns else None
        habits.before_read(is_first_step=self._num_read == 1)
        with apart_from_sources.reading(), taking(self):
            data = next(self._batches)
        habits.after_read()
        if not habits.known or habits.watched:
            habits.learn(self._num_read + 1, draws_with_steps=learns and before != self._stage.drawn())
        if isinstance(data, Part):
            return replace(data, data=habits.reuse.guard(data.data, self._num_finished))
        return habits.reuse.guard(data, self._num_finished)

    def _read_and_put(self) -> Taken[Staged | None]:
        """The next batch, with its copies to the devices begun; runs in the stager's thread."""
        host = self._reader.take()
        if self._looks_ahead and self._depth:
            self._reader.ask(int(min(self.permitted - self._num_inline, self._reader.num_taken + 1)))
        self._measure(host)
        return Taken(host, self._put(host, spans.STAGER, self._num_inline + self._reader.num_taken - 1))

    def _measure(self, host: HostBatch) -> None:
        """Adapt the depth to the largest batch so far."""
        num_bytes = host.num_bytes
        if num_bytes > self._largest:
            self._largest, self._depth = num_bytes, self._staging.depth(num_bytes)

    def _put(self, host: HostBatch, track: str, number: int) -> Staged:
        start = perf_counter_ns()
        staged = self._stage.put(host)
        if spans.LISTENERS:
            end = perf_counter_ns()
            spans.leave(track, "put", start, end, batch=number, rows=host.rows, bytes=host.num_bytes)
        return staged

    def _report_budget(self) -> None:
        self._habits.reported_budget = True
        fit = f"{self._depth} of them" if self._depth else "none of them"
        users_line.warn(
            f"batches of {self._largest / 2**20:,.1f} MiB: {fit} instead of {self._staging.most} can wait on the "
            f"devices within the memory budget for staging; set prefetch_bytes to allow more",
        )

    def _who(self) -> str:
        if not self._reads:
            return "it is being copied to the devices"
        where = self._reader.where()
        return f"the data source has not given it{f' ({where})' if where else ''}"

    def _say(self, seconds: float) -> None:
        message = f"a step has waited {seconds:.0f} s for batch {self.num_taken}: {self._who()}"
        hint = "the wait goes on; input_timeout (abreast run --input-timeout) would end it"
        tell(f"{message}\nhint: {hint}")

    def _timeout(self, seconds: float) -> DataError:
        return DataError(
            f"a step has waited {seconds:.0f} s for batch {self.num_taken}: {self._who()}",
            "look at that line of the source, or give a longer input_timeout",
        )
