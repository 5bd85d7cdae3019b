"""A backend's functions for staging, and its settings: the number of batches that a feed works ahead, and their memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from abreast.cpu import free_memory_bytes
from abreast.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from abreast.feed.batch import HostBatch

Staged = TypeVar("Staged")  # a batch on its way to the devices

DEFAULT_PREFETCH = 2
_SHARE_OF_FREE_MEMORY = 8
_SMALL_BYTES = 2**20  # asking for the free memory would take longer than a short step


def numpy_memory(leaf: Any) -> np.ndarray[Any, Any] | None:
    """The leaf, if it is a NumPy array; else None."""
    import numpy as np  # imported late, because a script under `abreast run` may configure NumPy first

    return leaf if isinstance(leaf, np.ndarray) else None


def copy_of_array(leaf: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return leaf.copy()


@dataclass(frozen=True)
class Leaves:
    """The arrays in a backend's host batches: NumPy arrays, and the framework's own tensors.

    `text`: whether steps accept strings. `memory` returns the memory of a leaf, as an array, if a source could write into it,
    else None. `copy` copies a leaf that has such memory.
    """

    text: bool = False
    memory: Callable[[Any], np.ndarray[Any, Any] | None] = numpy_memory
    copy: Callable[[Any], Any] = copy_of_array


NUMPY_LEAVES = Leaves()


def _nothing_to_give_back(staged: Any) -> None:
    pass


def _no_generator() -> None:
    return None


def _never(adapter: Any) -> bool:
    return False


class Processes(Protocol):
    """The part of a job (`backend.contract.Job`) that a feed needs."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def exchange(self, doing: str, own: bytes) -> list[bytes]: ...


@dataclass(frozen=True)
class Stage(Generic[Staged]):
    """A backend's functions for staging.

    `put` begins the copies of the shards to their devices and returns at once; threads of the feed call it. `discard` frees a
    staged batch that no step will run. `drawn` returns the state of the random generator from which both steps and sources draw,
    or None if they share none. `leaves` describes the leaves of the sources' batches. `processes`: the processes of a job whose
    sources give rows of their own (`feed/own_batches.py`). `keras_reads_ahead` returns whether plain Keras reads the source of a
    data adapter one batch before the step (`feed/one_ahead.py`).
    """

    put: Callable[[HostBatch], Staged]
    discard: Callable[[Staged], None] = _nothing_to_give_back
    drawn: Callable[[], bytes | None] = _no_generator
    leaves: Leaves = NUMPY_LEAVES
    processes: Processes | None = None
    keras_reads_ahead: Callable[[Any], bool] = _never


@dataclass(frozen=True)
class Staging:
    """Settings of a feed. `prefetch` batches wait on the devices, limited by `budget_bytes` (None: 1/8 of the free memory).

    `prefetch=None` means 2, or 0 for a source that could see effects of code between steps, and for arrays if short steps are
    faster with 0. `input_timeout` ends a `fit` that waits that many seconds for one batch; None waits for ever, and reports the
    wait.
    """

    prefetch: int | None = None
    budget_bytes: int | None = None
    input_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.prefetch is not None and not _is_depth(self.prefetch):
            raise DataError(
                f"prefetch={self.prefetch!r} is not allowed", "give a number of batches from 0 (no staging) to 64"
            )
        if self.budget_bytes is not None and not _is_above_zero(self.budget_bytes):
            raise DataError(f"prefetch_bytes={self.budget_bytes!r} is not allowed", "give a number of bytes above 0")
        if self.input_timeout is not None and not _is_above_zero(self.input_timeout):
            raise DataError(f"input_timeout={self.input_timeout!r} is not allowed", "give a number of seconds above 0")
        if self.input_timeout is not None and self.prefetch == 0:
            raise DataError(
                "input_timeout needs prefetch of at least 1",
                "without staging the source runs in the training thread, which nothing can interrupt",
            )

    @property
    def most(self) -> int:
        """The largest number of batches that may wait."""
        return DEFAULT_PREFETCH if self.prefetch is None else self.prefetch

    def depth(self, batch_bytes: int) -> int:
        """Number of batches of that size to keep ready: at most `most`, within the budget; 0 if none fits.

        The reader holds one more, the next batch, on the host.
        """
        is_small = self.budget_bytes is None and self.most * batch_bytes <= _SMALL_BYTES
        if not self.most or not batch_bytes or is_small:
            return self.most
        budget = self.budget_bytes if self.budget_bytes is not None else free_bytes() // _SHARE_OF_FREE_MEMORY
        return max(0, min(self.most, budget // batch_bytes))


DEFAULT_STAGING = Staging()


def _is_depth(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 64


def _is_above_zero(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0


def free_bytes() -> int:
    """Host memory that can be allocated without swapping; half of the machine's memory if that is unknown."""
    known = free_memory_bytes()
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if known is None else known
