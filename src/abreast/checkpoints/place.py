"""The place in a data source: the next batch, and the states that the rest of the order needs.

A place is the number of batches taken from the present iterator, and the states of the random generators and of the source's own
objects (`feed/source_state.py`) at three times: when the iterator was made, when its first batch was read, and now. After a
restart, the iterator is made again with the first two states and skips that number of batches (`feed/jump.py`). Then the third
state is restored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from abreast.checkpoints.generators import Generators, is_alike
from abreast.checkpoints.passed import Passed, Watch, num_batches, passed_in_all, read_again
from abreast.checkpoints.plain import CannotPackError, pack
from abreast.feed import DoneStep, Feed
from abreast.feed.jump import begin_at, is_the_batch
from abreast.feed.source_state import SourceState, write_counts
from abreast.keras_private import epochs
from abreast.keras_private.data_adapters import NUM_BATCHES_FOR_TENSOR_SPEC
from abreast.stderr import tell_once


@dataclass(frozen=True)
class Moment:
    """The states of the random generators, and of the source's own objects."""

    generators: Any
    source: Any


@dataclass(frozen=True)
class Place:
    """A place. `made` and `first`: states at the iterator's creation and at its first batch. `now`: the source's own objects.

    `batches`: batches taken from the iterator. `steps`: the steps of this epoch. `checksum`: of the last batch, if known.
    `drawn_ahead`: the generators that are ahead of the place, because the source was read ahead.
    `passed`: the batches that a Python generator gave to earlier iterators, without those that Keras reads to open it, with
    which each iterator begins. `opened`: the random generators before opening, if opening drew. `draws`: whether the present
    iterator may have drawn. `validating`: a validation has begun, before which Keras calls the hook of an epoch's end again.
    `held`: batches that plain Keras, too, has read from the iterator and not given to a step (`feed/one_ahead.py`).
    `held_drawn_from`: the random generators before that read, where other code has drawn from them since the read before.
    """

    made: Moment | None
    first: Moment | None
    now: Any
    batches: int
    steps: int
    known_batches: int | None
    checksum: int | None = None
    drawn_ahead: tuple[str, ...] = ()
    passed: tuple[Passed, ...] = ()
    opened: Any = None
    draws: bool = False
    validating: bool = False
    held: int = 0
    held_drawn_from: Any = None

    @property
    def is_open(self) -> bool:
        """Whether the source was open."""
        return self.now is not None

    @property
    def taken_in_all(self) -> tuple[Passed, ...]:
        """The batches that a Python generator gave to steps."""
        return self._in_all(self.batches)

    @property
    def passed_in_all(self) -> tuple[Passed, ...]:
        """These, and the held one."""
        return self._in_all(self.batches + self.held)

    def _in_all(self, batches: int) -> tuple[Passed, ...]:
        return passed_in_all(self.passed, batches, self.made.generators if self.made and self.draws else None)

    def without_attributes(self) -> Place:
        """The place without the changed attributes of the source's own objects."""
        none: dict[str, Any] = {"attributes": {}}
        made, first = (each and Moment(each.generators, {**each.source, **none}) for each in (self.made, self.first))
        return replace(self, made=made, first=first, now=self.now and {**self.now, **none}, checksum=None)

    @staticmethod
    def of(values: Mapping[str, Any]) -> Place:
        """The place with these fields, given as plain data."""
        moments = {name: values[name] and Moment(**values[name]) for name in ("made", "first")}
        return Place(**{**values, **moments, "passed": tuple(Passed(**each) for each in values["passed"])})


_PER_HOST = (
    'source="per-host": the checkpoint has the random generators and the data set of rank 0; where other ranks shuffle in an '
    "order of their own, the rest of this epoch is not exactly what would have followed\n"
    "hint: shuffle by numbers that the epoch and the rank determine"
)

_ANOTHER_BATCH = (
    "the last batch of a generator differs from the first run's: its next batches are not exactly those that would have "
    "followed\n"
    "hint: let the generator draw from a random generator of its own, with a seed"
)


class Keeper:
    """The place in one source during a `fit`. See `feed.PlaceKeeper`.

    `restarts`: Keras makes a new iterator for each epoch, also if `steps` is set, as in each validation.
    """

    def __init__(self, feed: Feed, generators: Generators, restarts: bool = False) -> None:
        self.steps_done = 0
        self.step_begins: Callable[[int], None] = lambda step: None  # called before the batch of a step is taken
        self._restarts = restarts
        # Batches that a Python generator gave to earlier iterators; `_given` adds those of the present one at the epoch's begin.
        self._passed: tuple[Passed, ...] = ()
        self._given: tuple[Passed, ...] = ()
        self._watch = Watch(generators)
        self._opened: Any = None
        self._feed = feed
        self._generators = generators
        self._source: SourceState | None = None
        self._made: Moment | None = None
        self._first: Moment | None = None
        self._moved = 0  # batches that the present iterator skipped
        self._epochs: Any = None
        self._due: Place | None = None
        self._continued: Place | None = None  # the place at which the present iterator began
        self._stands_in = False  # whether the next iterator replaces one that an earlier run read to its end
        feed.keeper, feed.keep_last = self, True

    @property
    def is_due(self) -> bool:
        """Whether the next epoch begins at a place of an earlier run."""
        return self._due is not None

    def place(self, steps: int, validating: bool = False) -> Place:
        """The place after `steps` of the present epoch; the earlier run's place until this run has reached it."""
        if (due := self._due) is not None:
            is_written = self._restarts and not due.validating
            return replace(due, now=self._read_source(), validating=validating) if is_written else due
        known = None if self._epochs is None else epochs.known_batches(self._epochs)
        feed = self._feed
        now = self._read_source() if feed.is_open else None
        batches = self._moved + feed.num_taken
        return Place(
            *(self._made, self._first, now, batches, steps, known),
            *(feed.checksum, feed.drawn_ahead, self._passed, self._opened, self._watch.draws, validating),
            *self._held(),
        )

    def go_to(self, place: Place) -> None:
        """Begin the next epoch at a place of an earlier run.

        A source for validation is restored at once: it may share objects with the training source, which continues first. Keras
        calls its hook of an epoch's end before each validation.
        """
        if not place.is_open:
            return
        self._due, self.steps_done = self._of_this_process(place), place.steps
        adapter = self._feed.adapter
        write_counts(adapter, self._due.now)
        if self._restarts and not place.validating:
            self._own(adapter).write(self._due.now)

    def _of_this_process(self, place: Place) -> Place:
        """The place for this process. If each process gives rows of its own, only rank 0 uses the saved objects: they are its."""
        processes = self._feed.stage.processes
        if processes is None or processes.size == 1:
            return place
        tell_once(_PER_HOST)
        return place if processes.rank == 0 else place.without_attributes()

    def ended(self, place: Place) -> None:
        """Restore the source at the place where an earlier run's `fit` ended, for a later `fit` that reads it."""
        if not place.is_open or self._feed.goes_on_over_fits or not any(place.now.values()):
            return
        if not self._feed.is_open:  # that of a validation, which Keras opens when one begins
            now = self._generators.read()
            _ = self._feed.adapter
            self._generators.put_back(now)
        self._own(self._feed.adapter).write(place.now)

    def pass_over(self, place: Place) -> None:
        """Read a Python generator as far as an ended `fit` had: the next `fit` on it begins there."""
        if not (place.is_open and self._feed.goes_on_over_fits):
            return
        batches = iter(self._feed.source)
        if not self._feed.is_open:  # that of a validation, which Keras opens when one begins
            if place.opened is not None:
                self._generators.put_back(place.opened)
            deque(islice(batches, NUM_BATCHES_FOR_TENSOR_SPEC), maxlen=0)
        self._read_again(batches, place)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Inside, a source opens. If an earlier run opened it, it draws the same numbers, and the generators are restored."""
        before, due = self._generators.read(), self._due
        self._opened = before if due is None else due.opened
        if due is not None and due.opened is not None:
            self._generators.put_back(due.opened)
        yield
        if due is not None:
            self._generators.put_back(before)
        elif is_alike(before, self._generators.read()):
            self._opened = None

    def opened(self, adapter: Any) -> None:
        """Note the state of a source that was just opened, before Keras calls its hooks."""
        if self._restarts:
            self._own(adapter)

    def enters(self, epoch_iterator: Any) -> epochs.KeptEpoch:
        """Begin an epoch for Keras, at the place of an earlier run if one is due."""
        self._epochs = epoch_iterator
        made = self._made.generators if self._made and self._watch.draws else None
        num_read = self._moved + self._feed.num_taken + self._held()[0]
        self._given = passed_in_all(self._passed, num_read, made)
        due, source = self._due, self._own(self._feed.adapter)
        if due is None:
            self.steps_done = 0
        elif self._begins_within(due):
            source.hold(due.now)
        else:
            if not self._restarts or due.validating:
                source.write(due.now)
            source.begin_epoch()
        self._stands_in = due is not None and self._is_over(due)
        # Keras counts the batches of each validation from 0.
        done = () if due is None or self._restarts else (due.steps, due.batches, due.known_batches, DoneStep())
        return epochs.KeptEpoch(self.step_begins, *done)

    def begin(self, adapter: Any, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        self._own(adapter)
        if self._stands_in:  # Keras requests an iterator, does not read it, and then requests the next epoch's
            self._stands_in = False
            self._own(adapter).end_epoch()
            return iter(())
        due, self._due = self._due, None
        if due is None or not self._begins_within(due):
            if self._feed.goes_on_over_fits:
                self._passed = self._given if due is None else self._passed_again(begin, due)
            self.steps_done = self._moved = 0
            self._continued = None
            self._made, self._first = self._moment(), None
            return self._noting_first(self._watched(begin()))
        self._made, self._first, self._moved, self._passed = due.made, due.first, due.batches, due.passed
        self._watch.draws = due.draws
        self._continued = due
        batches = self._move(adapter, begin, due)
        if self._is_over(due):
            self._own(adapter).write(due.now)
            self._own(adapter).begin_epoch()
        return batches if due.batches else self._noting_first(batches)

    def _passed_again(self, begin: Callable[[], Iterator[Any]], due: Place) -> tuple[Passed, ...]:
        """Read a Python generator up to the place of an earlier run; returns the parts that it gave to iterators there."""
        now, batches = self._generators.read(), begin()
        deque(islice(batches, NUM_BATCHES_FOR_TENSOR_SPEC), maxlen=0)
        self._read_again(batches, due)
        self._generators.put_back(now)
        return due.passed_in_all

    def _read_again(self, batches: Iterator[Any], place: Place) -> None:
        last = read_again(batches, place.passed_in_all, self._generators, num_batches(place.taken_in_all))
        if last is not None and not is_the_batch(last, place.checksum):
            tell_once(_ANOTHER_BATCH)

    def _watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches; for a Python generator with `restarts`, notes whether they draw."""
        self._watch.draws = self._feed.goes_on_over_fits and not self._restarts
        return self._watch.over(batches) if self._feed.goes_on_over_fits and self._restarts else batches

    def _is_over(self, due: Place) -> bool:
        """Whether the earlier run had done all steps of the epoch, and Keras had made the next epoch's iterator."""
        return bool(due.steps) and not (due.batches or self._restarts or self._feed.goes_on_over_epochs)

    def _begins_within(self, due: Place) -> bool:
        """Whether the next iterator continues within the earlier run's iterator, instead of a new one."""
        return bool(due.steps) or (self._feed.goes_on_over_epochs and not self._restarts)

    def _move(self, adapter: Any, begin: Callable[[], Iterator[Any]], due: Place) -> Iterator[Any]:
        now, source = self._generators.read(), self._own(adapter)

        def begin_again() -> Iterator[Any]:
            self._put_back(due.made)
            return begin()

        def agrees() -> bool:
            after = self._generators.read()
            return source.is_as(due.now) and all(is_alike(after[name], now[name]) for name in due.drawn_ahead)

        batches, line = begin_at(
            adapter, begin_again, due.batches, lambda: self._put_back(due.first), agrees, due.checksum
        )
        if due.held_drawn_from is not None:
            self._generators.put_back(self._generators.read() | due.held_drawn_from)
        held = list(islice(batches, due.held))
        after = self._generators.read()
        self._generators.put_back(now | {name: after[name] for name in due.drawn_ahead})
        source.write_rest(due.now)
        if line is not None:
            tell_once(line)
        return chain(held, batches)

    def _noting_first(self, batches: Iterator[Any]) -> Iterator[Any]:
        if self._first is None:
            self._first = self._moment()
        yield from batches

    def _held(self) -> tuple[int, Any]:
        """The fields `held` and `held_drawn_from` of a place: of the earlier run, until this run has taken a batch."""
        if self._continued is not None and not self._feed.num_taken:
            return self._continued.held, self._continued.held_drawn_from
        return self._feed.num_held, self._feed.held_drawn_from

    def _own(self, adapter: Any) -> SourceState:
        if self._source is None:
            self._source = SourceState(adapter)
        return self._source

    def _moment(self) -> Moment:
        return Moment(self._generators.read(), self._read_source())

    def _put_back(self, moment: Moment | None) -> None:
        assert moment is not None
        self._generators.put_back(moment.generators)
        self._own(self._feed.adapter).write(moment.source)

    def _read_source(self) -> Any:
        """The state of the source's own objects. Reports once the attributes that cannot be saved."""
        source = self._own(self._feed.adapter)
        state = source.read()
        attributes = {name: value for name, value in state["attributes"].items() if _can_be_packed(value)}
        for name in [*source.lost, *(name for name in state["attributes"] if name not in attributes)]:
            tell_once(
                f"checkpoints leave out {name} of the data source, which has changed: after a restart it is as the script "
                "makes it\nhint: give the object get_state() and set_state(state), whose state is plain data"
            )
        return {**state, "attributes": attributes}


def _can_be_packed(value: Any) -> bool:
    try:
        pack(value, "", {})
    except CannotPackError:
        return False
    return True


def keeper_of(epoch_iterator: Any) -> Keeper | None:
    feed = epoch_iterator.data_adapter
    return feed.keeper if isinstance(feed, Feed) and isinstance(feed.keeper, Keeper) else None


def begins(epoch_iterator: Any) -> epochs.KeptEpoch | None:
    """The begin of the epoch that Keras enters; None without a keeper. See `epochs.install`."""
    keeper = keeper_of(epoch_iterator)
    return None if keeper is None else keeper.enters(epoch_iterator)
