"""Reading of a source one batch before its step, as plain Keras on JAX does on GPUs.

A source sees the difference: a generator has given one batch more than was trained on, workers of a `PyDataset` keep other
batches for the next epoch, and a source in this process is read before the callbacks and draws of the step before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from abreast.feed.parts import Part
from abreast.feed.reuse import ReuseGuard
from abreast.staging import Leaves


class OneAhead:
    """The same batches; reads the next one before it returns one. If that read raises, the batch before is lost, as with Keras.

    `before_read` is called before each read; `state_before_read` is its last result.
    """

    def __init__(self, batches: Iterator[Any], leaves: Leaves, before_read: Callable[[], Any]) -> None:
        self.num_read = 0
        self.state_before_read: Any = None
        self._before_read = before_read
        self._batches = batches
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

    def left(self) -> list[Any]:
        """The batch that was read and not returned, if there is one, as the source gave it."""
        return list(self._held)

    def _read(self) -> None:
        if self._has_ended:
            return
        self.state_before_read = self._before_read()
        try:
            data = next(self._batches)
        except StopIteration:
            self._has_ended = True
            return
        if isinstance(data, Part):
            self._held.append(replace(data, data=self._guarded(data.data)))
        else:
            self._held.append(self._guarded(data))

    def _guarded(self, data: Any) -> Any:
        """The batch, or a copy if the source may write into it. The first one waits while the second shows that."""
        guarded = self._guard.guard(data, num_finished=self.num_read)
        self.num_read += 1
        return self._guard.copy(guarded) if self.num_read == 1 else guarded
