"""The place in a data source: which batch comes next, and the random generators that the rest of its order needs.

A place is the number of batches taken from the present iterator, and the state of the generators when that was made and when its
first batch was read. After a restart the iterator is made anew with these generators and moves on by that number of batches
(`feed/jump.py`). Then the generators are set as they were at the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from abreast.feed import DoneStep, Feed
from abreast.feed.jump import begin_at
from abreast.keras_private import epochs
from abreast.stderr import tell_once


@dataclass(frozen=True)
class Generators:
    """Reads and sets all random generators; a state is opaque here."""

    read: Callable[[], Any]
    put_back: Callable[[Any], None]


@dataclass(frozen=True)
class Place:
    """`began` and `first`: the generators when the iterator was made, and when its first batch was read.

    `batches` of it were taken, `steps` of them in this epoch. `drawn_ahead`: the generators that are further than the place,
    because the source was read ahead.
    """

    is_open: bool
    began: Any
    first: Any
    batches: int
    steps: int
    known_batches: int | None
    drawn_ahead: tuple[str, ...] = ()


class Keeper:
    """The place in one source during a `fit`. See `feed.PlaceKeeper`."""

    def __init__(self, feed: Feed, generators: Generators) -> None:
        self.steps_done = 0
        self._feed = feed
        self._generators = generators
        self._began: Any = None
        self._first: Any = None
        self._moved = 0  # batches over which the present iterator was moved
        self._epochs: Any = None
        self._due: Place | None = None
        feed.keeper = self

    def place(self, steps: int) -> Place:
        """The place after `steps` of the present epoch."""
        known = None if self._epochs is None else epochs.known_batches(self._epochs)
        batches = self._moved + self._feed.num_used
        return Place(self._feed.is_open, self._began, self._first, batches, steps, known, self._feed.drawn_ahead)

    def go_to(self, place: Place) -> None:
        """Begin the next epoch at a place of an earlier run."""
        if place.is_open:
            self._due, self.steps_done = place, place.steps

    @contextmanager
    def opening(self) -> Iterator[None]:
        """A source that an earlier run opened long ago draws nothing now."""
        before = self._generators.read() if self._due is not None else None
        yield
        if before is not None:
            self._generators.put_back(before)

    def enters(self, epoch_iterator: Any) -> epochs.Done | None:
        """Keras begins an epoch."""
        self._epochs = epoch_iterator
        due = self._due
        if due is None:
            self.steps_done = 0
        return None if due is None else epochs.Done(due.steps, due.batches, due.known_batches, DoneStep())

    def begin(self, adapter: Any, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        due, self._due = self._due, None
        if due is None or not (due.steps or self._feed.goes_on_over_epochs):
            self.steps_done = self._moved = 0
            self._began, self._first = self._generators.read(), None
            return self._noting_first(begin())
        now = self._generators.read()
        self._generators.put_back(due.began)
        batches, line = begin_at(adapter, begin, due.batches, lambda: self._generators.put_back(due.first))
        after = self._generators.read()
        self._generators.put_back(now | {name: after[name] for name in due.drawn_ahead})
        self._began, self._first, self._moved = due.began, due.first, due.batches
        if line is not None:
            tell_once(line)
        return batches if due.batches else self._noting_first(batches)

    def _noting_first(self, batches: Iterator[Any]) -> Iterator[Any]:
        if self._first is None:
            self._first = self._generators.read()
        yield from batches


def keeper_of(epoch_iterator: Any) -> Keeper | None:
    feed = epoch_iterator.data_adapter
    return feed.keeper if isinstance(feed, Feed) and isinstance(feed.keeper, Keeper) else None


def begins(epoch_iterator: Any) -> epochs.Done | None:
    """Where an epoch begins that Keras enters. See `epochs.install`."""
    keeper = keeper_of(epoch_iterator)
    return None if keeper is None else keeper.enters(epoch_iterator)
