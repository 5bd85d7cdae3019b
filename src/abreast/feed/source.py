"""The data source that a user passes: its opening, and its batches that were read and not used.

Unused batches of a generator go to the next `fit` on it, which therefore begins where plain Keras would begin. Other readers of
the generator do not get them.
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

from abreast import users_line
from abreast.feed.batch import HostBatch, Unread
from abreast.keras_private.data_adapters import DataAdapter
from abreast.keras_private.data_adapters import registry as data_adapters
from abreast.stderr import tell

# The beginning of the line about lost batches.
ENDED_EARLY = "the steps ended early"
_kept: WeakKeyDictionary[Generator[Any, Any, Any], deque[Unread]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Source:
    """`options` are arguments of Keras's `get_data_adapter`; `begin(adapter)` returns a function that begins an epoch."""

    x: Any
    options: dict[str, Any]
    begin: Callable[[DataAdapter], Callable[[], Iterator[Any]]]

    @property
    def arrays(self) -> Any:
        """The inputs, targets and weights of rows, as passed."""
        return self.x, self.options.get("y"), self.options.get("sample_weight")

    @property
    def steps_per_epoch(self) -> int | None:
        steps: int | None = self.options.get("steps_per_epoch")
        return steps

    def open(self) -> DataAdapter:
        """Keras's adapter, made as plain Keras makes it. For a generator, this reads two batches."""
        x = _with_unread(self.x) if isinstance(self.x, GeneratorType) else self.x
        return data_adapters.get_data_adapter(x=x, **self.options)

    def give_back(self, unread: list[Unread], num_by_keras: int, runs_here: bool) -> None:
        """Keep a generator's batches that were read ahead when a call ended early; for another source, report their loss.

        `num_by_keras`: how many of the unread batches plain Keras would have read too.
        """
        if isinstance(self.x, GeneratorType):
            kept = [(batch, error) for batch, error in unread[num_by_keras:] if not isinstance(error, StopIteration)]
            _kept.setdefault(self.x, deque()).extendleft(reversed(kept))
        elif runs_here and (lost := sum(batch is not None for batch, _ in unread) - num_by_keras) > 0:
            tell(
                f"{ENDED_EARLY}, and {lost} batches that were read ahead from the data source are lost\n"
                "hint: with prefetch=0 (abreast run --prefetch 0) it is read as far as plain Keras reads it"
            )


def with_held(unread: list[Unread], held: list[Any]) -> list[Unread]:
    """The unread batches, and those that were read after them and held back: before the exception of the next read."""
    first = len(unread) - 1 if unread and unread[-1][1] is not None else len(unread)
    return [*unread[:first], *((HostBatch(data, 0), None) for data in held), *unread[first:]]


def _with_unread(generator: Generator[Any, Any, Any]) -> Generator[Any, None, None]:
    """A generator that first yields the batches kept from the given one, then that one's own batches."""
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
    """Keras's warnings about a source. Keras names its caller's line; if the caller is abreast, this names the user's line."""
    if str(sys._getframe(2).f_globals.get("__name__")).startswith("abreast."):
        users_line.warn(message)
    else:
        warnings.warn(message, category, stacklevel + 1)


data_adapters.warnings = SimpleNamespace(**{**vars(warnings), "warn": _warn})
