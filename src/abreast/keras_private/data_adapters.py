"""Keras's data adapters and their helpers.

`super_batch_iterator` came with 3.16, where Keras on JAX asks for several batches at once; it is None before. Since 3.16, the
order of an epoch is drawn from the number of the epoch, which the adapter counts; before that, from random generators.

`registry` is the module in which Keras looks up `get_data_adapter`; `checking` replaces the function there, so call it through
`registry`.
"""

from __future__ import annotations

import copy
import functools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import keras
import numpy as np
from keras.src import tree
from keras.src.trainers import data_adapters as registry
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils, py_dataset_adapter
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.array_slicing import train_validation_split
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import (
    NUM_BATCHES_FOR_TENSOR_SPEC,
    get_torch_dataloader,
    unpack_x_y_sample_weight,
)
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter, PyDatasetEnqueuer
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from keras.src.trainers.data_adapters.torch_data_loader_adapter import TorchDataLoaderAdapter

from abreast.arrays import arrays_of
from abreast.keras_private.modules import KERAS
from abreast.replacing import replaced

__all__ = [
    "NUM_BATCHES_FOR_TENSOR_SPEC",
    "ArrayDataAdapter",
    "DataAdapter",
    "GeneratorDataAdapter",
    "PyDatasetAdapter",
    "PyDatasetEnqueuer",
    "Skips",
    "TFDatasetAdapter",
    "TorchDataLoaderAdapter",
    "array_order",
    "array_reader",
    "asked",
    "epoch_of",
    "fix_start_method",
    "get_torch_dataloader",
    "in_first_epoch",
    "note_orders",
    "of_other_source",
    "order_drawn_from",
    "places_and_rows",
    "registry",
    "replacing_source",
    "set_epoch",
    "skipping",
    "skips_of",
    "source_of",
    "start_workers",
    "stored_rows",
    "super_batch_iterator",
    "train_validation_split",
    "unpack_x_y_sample_weight",
]


def array_order(adapter: Any) -> Iterator[Any]:
    """The places of each batch's rows in an epoch, as indices or a slice; draws from NumPy like the adapter itself."""
    return (places for (places,) in adapter._get_iterator(lambda _, indices: indices, (0,)))


def array_reader(adapter: Any) -> Callable[[Any], Any]:
    """A function that returns rows of an adapter's arrays in the form that JAX accepts."""
    arrays = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="jax")

    def read(places: Any) -> Any:
        def rows_of(array: Any) -> Any:
            return array.convert_to_jax_compatible(array[places])

        return tree.map_structure(rows_of, arrays, none_is_leaf=False)

    return read


def places_and_rows(adapter: Any) -> tuple[Any, Callable[[Any], Any]] | None:
    """An adapter whose batches on TensorFlow are the places of the rows, and a function that returns the rows at some places.

    None for arrays that are not NumPy's, or hold no numbers. As in Keras's pipeline, later changes of an array have no effect:
    arrays are copied, except read-only ones.
    """
    inputs = adapter._inputs
    leaves = arrays_of(inputs)
    if not all(isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biuf" for leaf in leaves):
        return None
    places, rows = copy.copy(adapter), copy.copy(adapter)
    places._inputs = (np.arange(adapter._num_samples),)
    rows._inputs = tree.map_structure(
        lambda leaf: leaf.copy() if leaf is not None and leaf.flags.writeable else leaf, inputs
    )
    return places, array_reader(rows)


_SOURCES = ("_dataloader", "_dataset")  # the attribute of PyTorch's adapter, and of TensorFlow's and Grain's


def source_of(adapter: Any) -> Any:
    """The `DataLoader`, or the data set of TensorFlow or Grain, that an adapter reads; None for another adapter."""
    return next((vars(adapter)[name] for name in _SOURCES if name in vars(adapter)), None)


def of_other_source(adapter: Any, source: Any) -> Any:
    """An adapter that reads another `DataLoader` or data set of Grain as `adapter` reads its own."""
    other = copy.copy(adapter)
    setattr(other, next(name for name in _SOURCES if name in vars(adapter)), source)
    return other


@contextmanager
def replacing_source(adapter: Any, source: Any) -> Iterator[None]:
    """Inside, an adapter reads another `DataLoader` or data set of Grain."""
    name = next(name for name in _SOURCES if name in vars(adapter))
    plain = vars(adapter)[name]
    setattr(adapter, name, source)
    try:
        yield
    finally:
        setattr(adapter, name, plain)


def stored_rows(adapter: Any, number: int) -> Any:
    """At least `number` rows of an adapter's arrays, evenly spaced in stored order; all rows if there are fewer."""
    rows = adapter._num_samples
    return array_reader(adapter)(np.arange(0, rows, max(1, rows // number)))


_SKIPS = "_abreast_skips"  # attribute of an adapter inside `skipping`


@dataclass
class Skips:
    """Iterators that skip `num_batches`. `draws`: for each iterator, a function that makes the random draws of these batches.

    `note`: the reason why the order of the following batches differs from an earlier process's.
    """

    num_batches: int
    draws: list[Callable[[], None]] = field(default_factory=list)
    note: str | None = None


@contextmanager
def skipping(adapter: Any, num_batches: int) -> Iterator[Skips]:
    """Inside, iterators of an adapter of arrays begin after their first batches, and do not read the rows of these.

    The iterators of `get_tf_dataset` are not changed: see `skips_of`.
    """
    skips = Skips(num_batches)
    plain_iterator, plain_loader = adapter._get_iterator, adapter.get_torch_dataloader

    def skipped(order: Iterator[Any]) -> Iterator[Any]:
        skips.draws.append(lambda: _skip(order, num_batches))
        return order

    def get_iterator(read: Callable[..., Any], inputs: Any) -> Iterator[Any]:
        order = skipped(places for (places,) in plain_iterator(lambda _, indices: indices, (0,)))
        return (tree.map_structure(partial(read, indices=places), inputs, none_is_leaf=False) for places in order)

    def get_torch_dataloader() -> Any:
        loader = plain_loader()
        order = _Skipping(loader.batch_sampler, skipped)
        return type(loader)(loader.dataset, batch_sampler=order, collate_fn=loader.collate_fn)

    changed = {"_get_iterator": get_iterator, "get_torch_dataloader": get_torch_dataloader, _SKIPS: skips}
    vars(adapter).update(changed)
    try:
        yield skips
    finally:
        for name in changed:
            del vars(adapter)[name]


def skips_of(adapter: Any) -> Skips | None:
    """The skips of an adapter's next iterator; None outside `skipping`."""
    skips: Skips | None = vars(adapter).get(_SKIPS)
    return skips


def _skip(items: Iterator[Any], number: int) -> None:
    deque(islice(items, number), maxlen=0)


class _Skipping:
    """A batch sampler of PyTorch, with a function that gets each of its iterators."""

    def __init__(self, plain: Any, skipped: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self._plain = plain
        self._skipped = skipped

    def __iter__(self) -> Iterator[Any]:
        return self._skipped(iter(self._plain))

    def __len__(self) -> int:
        return len(self._plain)


_DRAWN_FROM = (
    "_abreast_drawn_from"  # an attribute of a thread: Python's random state before it shuffled an epoch's order
)


class _Noting:
    """Python's `random` for Keras's `PyDataset`: also notes the state from which an order was drawn."""

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)

    def shuffle(self, items: Any) -> None:
        setattr(threading.current_thread(), _DRAWN_FROM, random.getstate())
        random.shuffle(items)


@functools.cache
def note_orders() -> None:
    """Make the workers of a `PyDataset` note their orders and reads: see `order_drawn_from` and `asked`. Runs once."""
    module: Any = py_dataset_adapter
    module.random = _Noting()
    kind = module.OrderedEnqueuer
    plain_run, plain_get = kind._run, kind.get

    def run(self: Any) -> None:
        if _ASKED not in vars(self):
            pool = self.executor_fn
            self.executor_fn = lambda sequences: _NotingPool(pool(sequences), asked(self))
        plain_run(self)

    def get(self: Any) -> Iterator[Any]:
        for batch in plain_get(self):
            if asked(self):
                asked(self).popleft()
            yield batch

    kind._run, kind.get = run, get


_ASKED = "_abreast_asked"  # an attribute of an enqueuer


def asked(enqueuer: Any) -> deque[int]:
    """The indices of the batches that workers were asked for since `note_orders` and that were not taken, in order."""
    found: deque[int] = vars(enqueuer).setdefault(_ASKED, deque())
    return found


class _NotingPool:
    """A pool of workers that notes the requested indices."""

    def __init__(self, pool: Any, noted: deque[int]) -> None:
        self._pool = pool
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def apply_async(self, function: Any, arguments: Any) -> Any:
        self._noted.append(arguments[-1])
        return self._pool.apply_async(function, arguments)


def order_drawn_from(enqueuer: Any) -> Any:
    """Python's random state from which an enqueuer draws the present order; None without an order. Waits for the draw."""
    if hasattr(enqueuer, "epoch"):  # it draws the order from this number
        return None
    thread, end = enqueuer.run_thread, time.monotonic() + _DRAW_SECONDS
    while thread is not None and enqueuer.shuffle and enqueuer.py_dataset.num_batches is not None:
        if (found := vars(thread).get(_DRAWN_FROM)) is not None:
            return found
        if time.monotonic() > end or not thread.is_alive():
            break
        time.sleep(0.001)
    return None


_DRAW_SECONDS = 10.0
_EPOCH = "_epoch"  # an attribute of an adapter since Keras 3.16


def epoch_of(adapter: Any) -> int | None:
    """The number of the epoch that gives the order of an adapter of Keras; None if it has none.

    On TensorFlow, the order of arrays is that of the first epoch in all.
    """
    if not type(adapter).__module__.startswith(KERAS) or (
        isinstance(adapter, ArrayDataAdapter) and keras.backend.backend() == "tensorflow"
    ):
        return None
    epoch: int | None = vars(adapter).get(_EPOCH)
    return epoch


def set_epoch(adapter: Any, epoch: int) -> None:
    """Set a result of `epoch_of`."""
    vars(adapter)[_EPOCH] = epoch


def in_first_epoch(adapter: Any) -> AbstractContextManager[None]:
    """Inside, an adapter makes for TensorFlow the pipeline of its first epoch: since 3.16, all epochs have its order."""
    return replaced(adapter, _EPOCH, 0) if _EPOCH in vars(adapter) else nullcontext()


def start_workers(adapter: Any) -> None:
    """Start the workers of a `PyDataset`."""
    epoch = epoch_of(adapter)
    adapter.enqueuer.start(*([] if epoch is None else [epoch]))


super_batch_iterator: Any = getattr(data_adapter_utils, "super_batch_iterator", None)


def fix_start_method() -> None:
    """Make Keras choose the start method of a `PyDataset`'s processes now, before abreast initializes torch.distributed.

    Since 3.16, Keras spawns them if torch.distributed is initialized, and a script without a main guard cannot be spawned.
    """
    choose = getattr(py_dataset_adapter, "_get_mp_context", None)
    if choose is not None:
        choose()
