"""Reading of a source one batch before its step, as plain Keras on JAX does on GPUs.

A source sees the difference: a generator has given one batch more than was trained on, workers of a `PyDataset` keep other
batches for the next epoch, and a source in this process is read before the callbacks and draws of the step before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from abreast.feed.batch import HostBatch, Unread
from abreast.feed.reuse import ReuseGuard
from abreast.staging import Leaves


class OneAhead:
    """The same batches; reads the next one before it returns one. An exception of that read comes then too, as with Keras.

    `note` is called before each read, and `noted` is its last result.
    """

    def __init__(self, batches: Iterator[Any], leaves: Leaves, note: Callable[[], Any]) -> None:
        self.num_read = 0
        self.noted: Any = None
        self._note = note
        self._batches = batches
        self._leaves = leaves
        self._guard = ReuseGuard(1, leaves)
        self._held: deque[Any] = deque()
        self._has_ended = False

    def __iter__(self) -> OneAhead:
        return self

    def __next__(self) -> Any:
        if not self._held:
            self._read()
        if not self._held:
            raise StopIteration
        self._read()
        return self._held.popleft()

    def num_read_by_keras(self, num_taken: int) -> int:
        """Number of batches that plain Keras has read when it has returned `num_taken`."""
        return min(num_taken + 1, self.num_read) if num_taken else 0

    def left(self) -> list[Unread]:
        """The batch that was read and not returned, if there is one."""
        return [(HostBatch.of(data, text=self._leaves.text), None) for data in self._held]

    def _read(self) -> None:
        if self._has_ended:
            return
        self.noted = self._note()
        try:
            data = next(self._batches)
        except StopIteration:
            self._has_ended = True
            return
        guarded = self._guard.guard(data, num_finished=self.num_read)
        self.num_read += 1
        # The first batch waits while the second is read, which shows whether the source reuses its arrays.
        self._held.append(self._guard.copy(guarded) if self.num_read == 1 else guarded)
