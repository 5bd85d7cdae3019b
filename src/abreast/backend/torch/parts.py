"""Sources from which a launched process reads only its own rows, with the draws of a full read. Imports Keras and torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import keras
import torch

from abreast.feed import Part, ReadsParts, array_parts, not_numbers, own_reading
from abreast.keras_private.data_adapters import ArrayDataAdapter
from abreast.keras_private.torch import get_device
from abreast.shares import OwnRows


def parts_of(adapter: Any, own_rows: OwnRows) -> Iterator[Part] | None:
    """The parts of an epoch; None for a source that must be read in full."""
    if (own := own_reading(adapter, own_rows)) is not None:
        return own.parts(batches_of(own.adapter))
    if not isinstance(adapter, (ReadsParts, ArrayDataAdapter)):
        return None
    plain: Any = adapter
    loader = plain.get_torch_dataloader()
    iter(loader)  # draws a seed, as Keras's loader does when it begins
    if isinstance(adapter, ReadsParts):
        return adapter._parts(own_rows)

    def read(places: Any) -> Any:
        with keras.device("cpu"):  # else Keras moves every batch to the first GPU
            return _rows_at(loader, places)

    return array_parts(iter(loader.batch_sampler), read, own_rows)


def batches_of(adapter: Any) -> Iterator[Any]:
    """The batches of an adapter, on the CPU: plain Keras would move each to the first GPU.

    The loader's iterator is made at once, as Keras does: it draws a seed, which changes later shuffles.
    """
    loader = adapter.get_torch_dataloader()
    with _cpu():
        batches = iter(loader)
        # The same batches, without the loader's work for each; `abreast check` watches loaders of its own.
        if isinstance(adapter, ArrayDataAdapter) and isinstance(loader, torch.utils.data.DataLoader):
            order: Any = loader.batch_sampler
            batches = map(partial(_rows_at, loader), iter(order))
        return _each_on_cpu(batches)


def _rows_at(loader: Any, places: Any) -> Any:
    """The rows at some places in the arrays of Keras's loader."""
    return loader.collate_fn(loader.dataset.__getitems__(places))


def _cpu() -> AbstractContextManager[Any]:
    """Keras's scope of the CPU, unless Keras works there already: this runs at every step."""
    return nullcontext() if get_device() == "cpu" else keras.device("cpu")


def _each_on_cpu(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _cpu():
            try:
                batch = next(batches)
            except StopIteration:
                return
            except ValueError as error:  # Keras's message says less
                words, _, dtype = str(error).partition("Invalid dtype: ")
                if words or not dtype:
                    raise
                raise not_numbers(dtype) from error
        yield batch
