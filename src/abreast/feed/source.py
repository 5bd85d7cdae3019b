"""A data source as a user gave it: how it is opened, and what becomes of batches that were read of it and not used.

Those of a generator go first to its next `fit`, which so begins where plain Keras's would: that reads what it uses. Nobody
else sees them. Imports Keras's adapters and `users_line`.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from types import GeneratorType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import NUM_BATCHES_FOR_TENSOR_SPEC

from abreast import users_line
from abreast.feed.batch import Unread

_kept: WeakKeyDictionary[Generator[Any, Any, Any], deque[Unread]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Source:
    """`options` are those of Keras's `get_data_adapter`; `begin` gives a function that begins an epoch of an adapter."""

    x: Any
    options: dict[str, Any]
    begin: Callable[[DataAdapter], Callable[[], Iterator[Any]]]

    @property
    def steps_per_epoch(self) -> int | None:
        steps: int | None = self.options.get("steps_per_epoch")
        return steps

    def open(self) -> DataAdapter:
        """Keras's adapter, made as plain Keras makes it: for a generator that reads two batches."""
        x = _with_unread(self.x) if isinstance(self.x, GeneratorType) else self.x
        return data_adapters.get_data_adapter(x=x, **self.options)

    def give_back(self, num_taken: int, unread: list[Unread], runs_here: bool) -> None:
        """Keep what was read ahead of a call that ended early, or say that it is gone, for a source that cannot take it."""
        if isinstance(self.x, GeneratorType):
            peeked = max(0, NUM_BATCHES_FOR_TENSOR_SPEC - num_taken)  # plain Keras has read those, too
            kept = [(batch, error) for batch, error in unread[peeked:] if not isinstance(error, StopIteration)]
            _kept.setdefault(self.x, deque()).extendleft(reversed(kept))
        elif runs_here and (lost := sum(batch is not None for batch, _ in unread)):
            print(
                f"abreast: the data source was read {lost} batches further than the steps went, which ended early\n"
                "hint: with prefetch=0 (abreast run --prefetch 0) it is read as far as plain Keras reads it",
                file=sys.stderr,
            )


def _with_unread(generator: Generator[Any, Any, Any]) -> Generator[Any, None, None]:
    """A generator that gives what was kept of the other before what that gives."""
    kept = _kept.setdefault(generator, deque())
    while True:
        while kept:
            batch, error = kept.popleft()
            if error is not None:
                raise error
            assert batch is not None
            yield tuple(batch.data)  # a list on PyTorch
        try:
            data = next(generator)
        except StopIteration:
            return
        yield data


def _warn(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """A warning of Keras about a source. Keras points at its caller; where that is of abreast, this points at the user's line."""
    if str(sys._getframe(2).f_globals.get("__name__")).startswith("abreast."):
        users_line.warn(message)
    else:
        warnings.warn(message, category, stacklevel + 1)


data_adapters.warnings = SimpleNamespace(**{**vars(warnings), "warn": _warn})
