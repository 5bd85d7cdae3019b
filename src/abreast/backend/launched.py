"""A process that a launcher started, as a member of its job: the part that all backends share.

All processes use rank 0's order of the data and its findings about a model. Not here: how processes compare (`agreement.py`),
and the exchanges in a framework's steps (`*/launched.py`). Imports no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from keras import tree

from abreast import exact
from abreast.backend import order
from abreast.backend.agreement import Agreement
from abreast.backend.exchange import Exchange
from abreast.shares import Shares


class LaunchedProcess:
    """The part of `contract.Job` that needs no framework. `num_devices`: the number of devices of each process."""

    def __init__(self, job: Exchange) -> None:
        self.job = job
        self.num_devices = tuple(job.num_devices)
        self.names = _names(job.num_devices)
        self.predicts_for_rank_0 = False
        self._agreement = Agreement(job)
        self._relations: WeakKeyDictionary[Any, exact.Relations] = WeakKeyDictionary()

    @property
    def rank(self) -> int:
        return self.job.rank

    @property
    def size(self) -> int:
        return self.job.size

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        return self.job.exchange(doing, own)

    def failed(self, why: str) -> None:
        self.job.leaving.failed(why)

    def explained(self, error: Exception) -> Exception:
        return error

    def agree_on_order(self) -> None:
        """Begin an epoch: shuffle in rank 0's order."""
        order.restore(self._agreement.of_rank_0("begins an epoch", order.save()))

    def agree_on_relations(self, model: Any) -> None:
        """Use rank 0's findings about a model: from the first step on, all ranks have rank 0's weights."""
        found = exact.related_rows(model) or exact.Relations()
        text = self._agreement.of_rank_0("looks at the rows of a batch", found.steps_part())
        self._relations[model] = exact.Relations.of_steps_part(text)

    def related_rows(self, model: Any) -> exact.Relations | None:
        """See `exact.related_rows`."""
        return self._relations.get(model) or None

    def own_rows(self, rows: int) -> range:
        """The rows of a global batch that this process reads: its devices' rows; without any, row 0 as a stand-in.

        All rows if the first device has only one: a single row does not show whether a layer relates rows.
        """
        shares = Shares(rows, self.num_devices)
        return range(rows) if shares.counts[0] < 2 else shares.rows_of(self.rank) or range(1)

    def kept_outputs(self, outputs: Any, counts: Sequence[int] | None) -> Any:
        """The outputs of `predict` that this process keeps, selected from `outputs` for all rows of a global batch.

        `counts`: the number of rows from each process; each then keeps the outputs for its own rows. With None, it keeps all.
        While only rank 0 asks for outputs, the other processes keep none.
        """
        if self.rank and self.predicts_for_rank_0:
            return tree.map_structure(lambda leaf: leaf[:0], outputs)
        if counts is None:
            return outputs
        first = sum(counts[: self.rank])
        return tree.map_structure(lambda leaf: leaf[first : first + counts[self.rank]], outputs)


def _names(num_devices: Sequence[int]) -> tuple[str, ...]:
    """The names of all devices: `rank:1`, or `rank:1/0` and `rank:1/1` if a process has several."""
    several = max(num_devices) > 1
    return tuple(
        f"rank:{rank}" + (f"/{i}" if several else "") for rank, count in enumerate(num_devices) for i in range(count)
    )
