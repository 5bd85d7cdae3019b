"""The place in a source: an iterator that goes on after some batches, with exactly the batches that followed in an earlier run.

Arrays jump: only the order of their rows is drawn. Sources with a jump of their own use it. Any other source is read again.
Imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from abreast.errors import DataError
from abreast.feed.fingerprint import source_fingerprint
from abreast.keras_private.data_adapters import ArrayDataAdapter, skipping

__all__ = ["Jumps", "begin_at", "ended_early", "source_fingerprint"]


@runtime_checkable
class Jumps(Protocol):
    """A data adapter of ours that can begin at any batch; users do not call its method."""

    def _jump(self, num_batches: int) -> bool:
        """Let the iterator that was made last, and has returned none, begin after some batches; whether any are left."""
        ...


def begin_at(
    adapter: Any,
    begin: Callable[[], Iterator[Any]],
    num_batches: int,
    before_first: Callable[[], None] = lambda: None,
) -> tuple[Iterator[Any], str | None]:
    """An iterator of a source after its first batches, and what this cost or cannot promise, for the user.

    A source may draw random numbers when its iterator is made, and again when it reads the first batch; other code may draw in
    between, as validation does. So the random generators have to be put back twice.

    Args:
        adapter: Keras's adapter of the source.
        begin: makes the iterator. The random generators are as they were when the iterator was made in the earlier run.
        num_batches: number of batches that were taken from it there.
        before_first: puts the random generators back as they were before its first batch was read. Called once, after `begin`,
            unless `num_batches` is 0.

    Raises:
        DataError: the source ends too early.
    """
    if not num_batches:
        return begin(), None
    if isinstance(adapter, ArrayDataAdapter):
        with skipping(adapter, num_batches) as skips:
            batches = begin()
        before_first()
        if skips.draws:
            skips.draws[-1]()  # of several iterators, a backend reads the last one
        return batches, skips.note
    batches = begin()
    before_first()
    if isinstance(adapter, Jumps):
        if not adapter._jump(num_batches):
            next(batches, None)  # the iterator ends: what comes next is another epoch
        return batches, None
    return batches, _read_again(adapter, batches, num_batches)


def _read_again(adapter: Any, batches: Iterator[Any], num_batches: int) -> str:
    start = perf_counter()
    for number in range(num_batches):
        try:
            next(batches)
        except StopIteration:
            raise ended_early(number, num_batches) from None
    return f"the data source was read again up to batch {num_batches:,}: {perf_counter() - start:.1f} s"


def ended_early(num_batches: int, taken: int) -> DataError:
    """The error for a source that has become shorter."""
    what = f"the data source ended after {num_batches:,} batches, and {taken:,} had been taken from it"
    return DataError(what, "give it the same data as before")
