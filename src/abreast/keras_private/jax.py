"""Keras's JAX trainer. Imports JAX: for the JAX backend only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.src.backend.jax.trainer import JAXEpochIterator

__all__ = ["JAXEpochIterator", "reads_ahead"]

_plain: Any = JAXEpochIterator._get_iterator


def reads_ahead(adapter: Any) -> bool:
    """Whether plain Keras reads a batch of this source before the step of the batch before it.

    It does so on GPUs, and up to Keras 3.14 on CPUs too. This counts the batches that its
    iterator reads before it returns the first one.
    """
    distribution: Any = keras.distribution.distribution()
    rows = 1 if distribution is None else distribution.device_mesh.devices.size
    probe: Any = object.__new__(JAXEpochIterator)
    probe.steps_per_execution = 1  # Keras 3.16 asks for it
    probe.data_adapter = counting = _Counting(rows, getattr(adapter, "builtin_prefetch", False))
    next(iter(_plain(probe)))
    return counting.num_read > 1


class _Counting:
    """A data adapter that counts the batches that are read; `builtin_prefetch` as Keras 3.13 asks for it."""

    def __init__(self, rows: int, builtin_prefetch: bool) -> None:
        self.builtin_prefetch = builtin_prefetch
        self.num_read = 0
        self._rows = rows

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        for self.num_read in range(1, 4):
            yield (np.zeros((self._rows, 1), "float32"),)
