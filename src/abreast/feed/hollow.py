"""Sources read by index: an iterator skips some batches without reading them, and only draws their order.

These are a `PyDataset` and a `DataLoader` over a data set with indices. Not here: whether that is exact (`jump.py`). Imports no
framework.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from queue import Queue
from typing import Any

import keras

from abreast.feed import torch_loader
from abreast.keras_private.data_adapters import (
    PyDatasetAdapter,
    TorchDataLoaderAdapter,
    asked,
    order_drawn_from,
    replacing_source,
    start_workers,
)
from abreast.stderr import tell_once

# An attribute of an adapter: the result of `order_of_workers` in an earlier run.
_ORDER = "_abreast_order"
_HOOKS = ("on_epoch_begin", "on_epoch_end")
_LEFT = (
    "workers of the data set had read batches that Keras keeps for the next epoch, and a hook of the data set has run since: "
    "these batches may be others than in the first run\nhint: workers=1 reads no batches for another epoch"
)


def can_be_hollow(adapter: Any) -> bool:
    """Whether an iterator of this source can skip batches without reading them."""
    if isinstance(adapter, TorchDataLoaderAdapter):
        loader = adapter._dataloader
        return torch_loader.is_plain(loader) and loader.batch_sampler is not None and loader._dataset_kind == 0
    return isinstance(adapter, PyDatasetAdapter)


def has_workers(adapter: Any) -> bool:
    """Whether other processes or threads read the source; their state is not visible here."""
    if isinstance(adapter, TorchDataLoaderAdapter):
        return torch_loader.num_workers(adapter._dataloader) > 0
    return adapter.enqueuer is not None


def is_by_index(adapter: Any) -> bool:
    """Whether a batch is known to depend on its index alone."""
    if isinstance(adapter, TorchDataLoaderAdapter):
        return torch_loader.reads_by_index(adapter._dataloader)
    return bool(getattr(adapter.py_dataset, torch_loader.BY_INDEX, False))


@contextmanager
def hollow(adapter: Any, num_batches: int) -> Iterator[Callable[[], None]]:
    """Inside, the first `num_batches` batches of a new iterator are empty. Call the function before it returns more."""
    if isinstance(adapter, TorchDataLoaderAdapter):
        with replacing_source(adapter, _hollow_loader(adapter._dataloader, num_batches)):
            yield lambda: None
        return
    source = adapter.py_dataset

    def put_back() -> None:
        adapter.py_dataset = source

    adapter.py_dataset = _Hollow(source)
    try:
        yield put_back
    finally:
        put_back()


class _Hollow:
    """A `PyDataset` whose batches are empty."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __getitem__(self, index: int) -> Any:
        return (None,)


def _hollow_loader(loader: Any, num_batches: int) -> Any:
    def order() -> Iterator[Any]:
        for number, indices in enumerate(loader.batch_sampler):
            yield [] if number < num_batches else indices

    settings = {"collate_fn": _OrNothing(loader.collate_fn), "worker_init_fn": loader.worker_init_fn}
    return torch_loader.with_order(loader, order, **settings)


class _OrNothing:
    """A `collate_fn` that also accepts a batch without rows. Workers get a copy."""

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self._plain = plain

    def __call__(self, rows: Any) -> Any:
        return self._plain(rows) if len(rows) else ()


def order_of_workers(adapter: Any) -> dict[str, Any]:
    """The batches that a `PyDataset`'s workers have left from the last epoch, and the random state that gives their order."""
    enqueuer = adapter.enqueuer
    left = list(asked(enqueuer))[: enqueuer.ready_queue.qsize()]
    return {"left": left, "drawn_from": order_drawn_from(enqueuer)}


def set_order_of_workers(adapter: Any, order: Mapping[str, Any]) -> None:
    """Set the result of `order_of_workers`, for the epoch that continues or begins."""
    vars(adapter)[_ORDER] = order


def begin_workers_anew(adapter: Any, num_batches: int = 0) -> None:
    """Give the stopped workers of a `PyDataset` the batches left in the earlier run, except the first `num_batches`."""
    enqueuer = adapter.enqueuer
    enqueuer.ready_queue = Queue()  # it held batches that they read in this process
    asked(enqueuer).clear()
    left = vars(adapter).get(_ORDER, {"left": []})["left"][num_batches:]
    kind = type(adapter.py_dataset)
    if left and any(getattr(kind, name) is not getattr(keras.utils.PyDataset, name) for name in _HOOKS):
        tell_once(_LEFT)
    for index in left:
        enqueuer.ready_queue.put(adapter.py_dataset[index])
        asked(enqueuer).append(index)


def restart_workers(adapter: Any, num_batches: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Restart the epoch of a `PyDataset`'s workers after its first `num_batches` batches.

    Returns a function that shortens Keras's iterator, which would wait for as many batches after the last one.
    """
    enqueuer = adapter.enqueuer
    enqueuer.stop()
    begin_workers_anew(adapter, num_batches)
    order = vars(adapter).pop(_ORDER, {"left": [], "drawn_from": None})
    plain = enqueuer.executor_fn

    def pool(sequences: Any) -> Any:
        enqueuer.executor_fn = plain  # for later epochs
        return _SkippingPool(plain(sequences), max(0, num_batches - len(order["left"])))

    enqueuer.executor_fn = pool
    if order["drawn_from"] is not None:
        random.setstate(order["drawn_from"])
    start_workers(adapter)
    order_drawn_from(enqueuer)
    number = adapter.num_batches

    def rest(batches: Iterator[Any]) -> Iterator[Any]:
        return batches if number is None else islice(batches, max(0, number - num_batches))

    return rest


class _SkippingPool:
    """A pool of workers that answers the first calls with None, which Keras skips."""

    def __init__(self, pool: Any, num_calls: int) -> None:
        self._pool = pool
        self._left = num_calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def apply_async(self, *call: Any) -> Any:
        if not self._left:
            return self._pool.apply_async(*call)
        self._left -= 1
        return _Nothing()


class _Nothing:
    def get(self) -> None:
        return None
