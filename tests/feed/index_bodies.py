"""Bodies of the tests of sources read by index; they run in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grain
import numpy as np
import torch

from abreast import stderr
from abreast.errors import DataError
from abreast.feed import own_reading
from abreast.feed.hollow import is_by_index
from abreast.keras_private.data_adapters import registry
from abreast.shares import Shares

Loader = torch.utils.data.DataLoader
_ROWS = torch.arange(44.0).reshape(22, 2)


class _Numbered(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Notes the indices that it is asked for. `changes`: its rows depend on how often."""

    abreast_by_index = True

    def __init__(self, changes: bool = False) -> None:
        self.asked: list[int] = []
        self._changes = changes

    def __len__(self) -> int:
        return len(_ROWS)

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return {"x": _ROWS[index] + self._changes * len(self.asked), "number": index}, index / 2


class _Own(Loader):  # type: ignore[type-arg]
    pass


def _adapter(source: Any) -> Any:
    return registry.get_data_adapter(x=source)


def _own_rows(rank: int, size: int) -> Callable[[int], range]:
    return lambda rows: Shares(rows, (1,) * size).rows_of(rank) or range(1)


def _flat(batches: Any) -> list[Any]:
    return [[np.asarray(leaf).tolist() for leaf in _leaves(batch)] for batch in batches]


def _leaves(batch: Any) -> list[Any]:
    found = [batch] if not isinstance(batch, dict | tuple | list) else []
    for part in batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else ():
        found.extend(_leaves(part))
    return found


def _compared(made: Callable[[], Any], size: int) -> dict[str, Any]:
    """Two epochs of a source as one process reads it, and of its parts put together."""
    whole = [_read(_adapter(made()), lambda adapter: list(adapter.get_numpy_iterator()))]
    states = [torch.get_rng_state()]
    ranks = []
    for rank in range(size):
        ranks.append(_read(_adapter(made()), partial(_parts, rows=_own_rows(rank, size))))
        states.append(torch.get_rng_state())
    joined = [
        [
            [np.concatenate(leaves).tolist() for leaves in zip(*map(_held, parts), strict=True)]
            for parts in zip(*each, strict=True)
        ]
        for each in zip(*ranks, strict=True)
    ]
    return {
        "equal": joined == [_flat(each) for each in whole[0]],
        "as many batches": [len(each) for each in joined] == [len(each) for each in whole[0]],
        "draws as one": all(torch.equal(state, states[0]) for state in states),
        "alike": len({tuple(part.digest for epoch in rank for part in epoch) for rank in ranks}) == 1,
        "digests": len({part.digest for epoch in ranks[0] for part in epoch}),
        "rows": [[part.rows for part in epoch] for epoch in ranks[0]],
    }


def _read(adapter: Any, epoch: Callable[[Any], Any]) -> list[Any]:
    torch.manual_seed(3)
    return [epoch(adapter) for _ in range(2)]


def _parts(adapter: Any, rows: Any) -> list[Any]:
    own = own_reading(adapter, rows)
    assert own is not None
    return list(own.parts(iter(own.adapter.get_numpy_iterator())))


def _held(part: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in _leaves(part.data)]


def loaders() -> list[dict[str, Any]]:
    tensors = torch.utils.data.TensorDataset(_ROWS, _ROWS[:, :1])
    subset = torch.utils.data.Subset(tensors, list(range(21)))
    generator = torch.Generator()
    return [
        _compared(lambda: Loader(tensors, batch_size=8, shuffle=True), 2),
        _compared(lambda: Loader(subset, batch_size=8, drop_last=True), 3),
        _compared(lambda: Loader(_Numbered(), batch_size=8, shuffle=True, num_workers=2), 2),
        _compared(lambda: Loader(_Numbered(), 8, shuffle=True, generator=generator.manual_seed(5)), 2),
    ]


def a_loader_over_two_data_sets_is_read_by_index() -> bool:
    both: Any = torch.utils.data.ConcatDataset([torch.utils.data.TensorDataset(_ROWS), _Numbered()])
    return own_reading(_adapter(Loader(both, batch_size=8)), _own_rows(0, 2)) is not None


def rows_that_are_read() -> list[int]:
    dataset = _Numbered()
    adapter = _adapter(Loader(dataset, batch_size=8))
    asked = []
    for rank in range(2):
        dataset.asked.clear()
        _parts(adapter, _own_rows(rank, 2))
        asked.append(len(dataset.asked))
    return asked


def rows_that_change() -> str:
    try:
        _parts(_adapter(Loader(_Numbered(changes=True), batch_size=8)), _own_rows(1, 2))
    except DataError as error:
        return str(error)
    return ""


@contextmanager
def _told() -> Iterator[list[str]]:
    told: list[str] = []
    messages: Any = stderr
    plain, messages.tell = stderr.tell, told.append
    try:
        yield told
    finally:
        messages.tell = plain


def a_restart_asks_a_loader() -> list[Any]:
    with _told() as told:
        return [is_by_index(_adapter(Loader(_Numbered(), batch_size=8, worker_init_fn=print))), told]


def loaders_read_whole() -> tuple[list[bool], list[str]]:
    by_index, other = _Numbered(), _Numbered()
    other.abreast_by_index = False
    with _told() as told:
        found = [
            own_reading(_adapter(loader), _own_rows(0, 2)) is None
            for loader in (
                Loader(other, batch_size=8),
                Loader(by_index, batch_size=8, collate_fn=lambda rows: torch.stack([row["x"] for row, _ in rows])),
                Loader(by_index, batch_size=8, num_workers=1, persistent_workers=True),
                _Own(by_index, batch_size=8),
                Loader(torch.utils.data.ConcatDataset([by_index, other]), batch_size=8),
            )
        ]
    return found, told


def _seeded() -> Any:
    numbers = grain.MapDataset.source(np.arange(22.0)).seed(3).shuffle()
    return numbers.random_map(lambda value, draws: {"x": np.array([value, draws.random()]), "y": np.float32(value)})


def grain_datasets() -> list[dict[str, Any]]:
    return [
        _compared(lambda: _seeded().batch(8), 2),
        _compared(lambda: _seeded().batch(8, drop_remainder=True).to_iter_dataset(), 3),
        _compared(lambda: _seeded().repeat(2).to_iter_dataset().batch(8), 2),
    ]


def grain_datasets_read_whole() -> list[bool]:
    numbers = _seeded()
    datasets = (
        numbers.batch(8).map(lambda batch: batch),
        numbers.batch(8, batch_fn=lambda rows: {"x": np.stack([row["x"] for row in rows])}),
        numbers.filter(lambda row: row["y"] > 3).to_iter_dataset().batch(8),
        numbers.to_iter_dataset().map(lambda row: row).batch(8),
    )
    return [own_reading(_adapter(dataset), _own_rows(0, 2)) is None for dataset in datasets]
