"""Grain batches with numbered rows: batching comes last, after a `MapDataset` that leaves out no element.

Grain demands of such a data set that an element depends on its index alone; its random transformations draw from generators that
it seeds with the index. Uses Grain only if the user has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_LEAVE_OUT = ("FilterMapDataset", "FlatMapMapDataset")
_LONGEST = 2**31  # elements; longer data sets repeat without end, and `steps_per_epoch` ends their epochs


@dataclass(frozen=True)
class NumberedBatches:
    """Batches of `size` rows of `elements`, and perhaps a shorter last one."""

    elements: Any
    size: int
    number: int
    join: Callable[[Sequence[Any]], Any]

    def rows(self, number: int) -> int:
        return min(self.size, len(self.elements) - number * self.size)

    def after(self, number: int) -> Any:
        """A data set that yields the batches from `number` on. Their numbers and rows do not change."""
        return self._read(number, lambda batch: range(self.rows(batch)))

    def with_places(self, places: Callable[[int], Sequence[int]]) -> Any:
        """A data set that yields only the rows at `places(number)` of each batch."""
        return self._read(0, places)

    def _read(self, begin: int, places: Callable[[int], Sequence[int]]) -> Any:
        grain: Any = sys.modules["grain"]

        def read(number: int) -> Any:
            first = int(number) * self.size
            return self.join([self.elements[first + place] for place in places(int(number))])

        return grain.MapDataset.range(begin, self.number).map(read)


def of(dataset: Any) -> NumberedBatches | None:
    """The batches of a data set of Grain; None for any other source, and if the elements have no numbers."""
    kind = _kind(dataset)
    if kind == "PrefetchIterDataset":  # of `to_iter_dataset`
        dataset = dataset._parent
        kind = _kind(dataset)
    if kind not in ("BatchMapDataset", "BatchIterDataset"):
        return None
    elements = dataset._parent
    if kind == "BatchIterDataset":
        if _kind(elements) != "PrefetchIterDataset":
            return None
        elements = elements._parent
    size, join = dataset._batch_size, dataset._batch_fn
    if getattr(join, "__name__", "") != "make_batch" or _leaves_out(elements) or len(elements) > _LONGEST:
        return None
    number = len(elements) // size if dataset._drop_remainder else -(-len(elements) // size)
    return NumberedBatches(elements, size, number, join)


def _kind(dataset: Any) -> str:
    kind = type(dataset)
    return kind.__name__ if kind.__module__.startswith("grain.") else ""


def _leaves_out(dataset: Any) -> bool:
    return _kind(dataset) in _LEAVE_OUT or any(map(_leaves_out, dataset.parents))
