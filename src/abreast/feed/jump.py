"""The place in a source: an iterator that begins after some batches, with exactly the batches that followed in an earlier run.

Arrays jump: only the order of their rows is drawn. Sources with a jump of their own use it. Sources with an index skip batches
if that is exact (`hollow.py`). Any other source is read again. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from abreast.errors import DataError
from abreast.feed import grain_batches, tf_order
from abreast.feed.batch import HostBatch
from abreast.feed.fingerprint import source_fingerprint
from abreast.feed.hollow import can_be_hollow, has_workers, hollow, is_by_index, restart_workers
from abreast.keras_private.data_adapters import (
    ArrayDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
    replacing_source,
    skipping,
    source_of,
)

__all__ = ["Jumps", "begin_at", "ended_early", "is_the_batch", "source_fingerprint", "take_batches"]


@runtime_checkable
class Jumps(Protocol):
    """A data adapter of ours that can begin at any batch; users do not call its method."""

    def _jump(self, num_batches: int) -> bool:
        """Let the newest iterator, which has returned no batch, begin after some; returns whether any are left."""
        ...


def begin_at(
    adapter: Any,
    begin: Callable[[], Iterator[Any]],
    num_batches: int,
    before_first: Callable[[], None] = lambda: None,
    agrees: Callable[[], bool] | None = None,
    checksum: int | None = None,
) -> tuple[Iterator[Any], str | None]:
    """An iterator of a source after its first batches, and a note for the user: the cost, or the batches that may differ.

    A source may draw random numbers when its iterator is made, and again when it reads the first batch; other code, such as
    validation, may draw in between. So the random generators are put back twice.

    Args:
        adapter: Keras's adapter of the source.
        begin: makes the iterator, with the random generators in their state from this moment of the earlier run. Called twice if
            the first iterator gives other batches; then it must put the generators back itself.
        num_batches: number of batches taken in the earlier run.
        before_first: puts the random generators into their state before the first batch was read. Called after each `begin`,
            unless `num_batches` is 0.
        agrees: whether the source, and the generators that only it draws from, now have their state from the earlier run after
            these batches. Without it, a source that may depend on more than the index of a batch is read again.
        checksum: `HostBatch.compared` of the last of these batches in the earlier run.

    Raises:
        DataError: the source ends too early.
    """
    if not num_batches:
        return begin(), None
    if isinstance(adapter, ArrayDataAdapter):
        return _jump_in_arrays(adapter, begin, num_batches, before_first)
    if isinstance(adapter, Jumps):
        batches = begin()
        before_first()
        if not adapter._jump(num_batches):
            next(batches, None)  # the iterator ends: what comes next is another epoch
        return batches, None
    numbered = grain_batches.of(source_of(adapter))
    if numbered is not None and num_batches < numbered.number:
        with replacing_source(adapter, numbered.after(num_batches)):
            batches = begin()
        before_first()
        return batches, None
    if can_be_hollow(adapter):
        if isinstance(adapter, PyDatasetAdapter) and has_workers(adapter):
            batches = begin()
            before_first()
            return restart_workers(adapter, num_batches)(batches), None
        if is_by_index(adapter) or (agrees is not None and not has_workers(adapter)):
            batches, last = _pass_over(adapter, begin, num_batches, before_first)
            if is_the_batch(last, checksum) and (agrees is None or agrees()):
                return batches, None
    return _read_again(adapter, begin, num_batches, before_first, checksum)


def _jump_in_arrays(
    adapter: Any, begin: Callable[[], Iterator[Any]], num_batches: int, before_first: Callable[[], None]
) -> tuple[Iterator[Any], str | None]:
    with skipping(adapter, num_batches) as skips:
        batches = begin()
    before_first()
    if skips.draws:
        skips.draws[-1]()  # of several iterators, a backend reads the last one
    return batches, skips.note


def _pass_over(
    adapter: Any, begin: Callable[[], Iterator[Any]], num_batches: int, before_first: Callable[[], None]
) -> tuple[Iterator[Any], Any]:
    """The iterator after some batches, and the last of them; the others were not read."""
    with hollow(adapter, num_batches - 1) as fill:
        batches = begin()
        before_first()
        take_batches(batches, num_batches - 1, num_batches)
        fill()
        return batches, take_batches(batches, 1, num_batches)


def _read_again(
    adapter: Any,
    begin: Callable[[], Iterator[Any]],
    num_batches: int,
    before_first: Callable[[], None],
    checksum: int | None,
) -> tuple[Iterator[Any], str]:
    start = perf_counter()
    batches = begin()
    before_first()
    last = take_batches(batches, num_batches)
    cost = f"the data source was read again up to batch {num_batches:,}: {perf_counter() - start:.1f} s"
    dataset = adapter.get_tf_dataset() if isinstance(adapter, TFDatasetAdapter) else None
    lost = None if dataset is None else tf_order.lost(dataset)
    if lost is None and dataset is not None and (checksum is None or not is_the_batch(last, checksum)):
        lost = tf_order.perhaps_lost(dataset)
    if lost is None and not is_the_batch(last, checksum):
        lost = _OTHERS.format(num_batches - 1)
    return batches, cost if lost is None else f"{cost}\n{lost}"


_OTHERS = (
    "batch {:,} is another one than in the first run: the rest of this epoch is not exactly what would have followed\n"
    "hint: seed every random generator of the data source, or give the source get_state() and set_state(state)"
)


def take_batches(batches: Iterator[Any], number: int, wanted: int | None = None) -> Any:
    """Take `number` batches, the last of `wanted`, and return the last one. Raises `DataError` if there are fewer."""
    last, wanted = None, number if wanted is None else wanted
    for taken in range(number):
        try:
            last = next(batches)
        except StopIteration:
            raise ended_early(wanted - number + taken, wanted) from None
    return last


def is_the_batch(batch: Any, checksum: int | None) -> bool:
    """Whether a batch has the checksum of an earlier run; true if there is none."""
    return checksum is None or HostBatch.of(batch, text=True).compared == checksum


def ended_early(num_batches: int, taken: int) -> DataError:
    """The error for a source that has become shorter."""
    what = f"the data source ended after {num_batches:,} batches, and {taken:,} had been taken from it"
    return DataError(what, "give it the same data as before")
