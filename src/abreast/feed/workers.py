"""The end of a `PyDataset`'s workers. Keras ends them with an epoch, and leaves them running if `fit` ends within an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from abreast.keras_private.data_adapters import PyDatasetEnqueuer

_END_SECONDS = 5.0
_LOOK_SECONDS = 0.01


@contextmanager
def workers_ended() -> Iterator[None]:
    """At the end of the block, end the workers that began in it."""
    begun: list[Any] = []
    plain = PyDatasetEnqueuer.start

    def start(self: Any) -> None:
        begun.append(self)
        plain(self)

    PyDatasetEnqueuer.start = start
    try:
        yield
    finally:
        PyDatasetEnqueuer.start = plain
        for enqueuer in begun:
            end_workers(enqueuer)


def end_workers(enqueuer: Any) -> None:
    """Let the workers of a Keras enqueuer end after their present read; does not wait for that read."""
    thread = enqueuer.run_thread
    if thread is None:
        return
    enqueuer.stop(drain_queue_and_join=False)
    deadline = time.monotonic() + _END_SECONDS
    # The enqueuer's thread may wait for room in its queue, and no other thread empties the queue any more.
    while thread.is_alive() and time.monotonic() < deadline:
        try:
            enqueuer.future_queue.get(timeout=_LOOK_SECONDS)
        except Empty:
            continue
