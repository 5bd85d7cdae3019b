"""The threads in which a `CallbackList` calls hooks of batches: the thread that trains, or its own; `default` marks a method
that is no hook."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from keras.src.callbacks import CallbackList
from keras.src.utils.python_utils import default

from abreast.replacing import replaced

__all__ = ["called_at_once", "default", "use_one_thread"]


def called_at_once(callbacks: Any) -> AbstractContextManager[None]:
    """Inside, hooks of training batches run in the thread that trains. Otherwise, a `CallbackList` decides when it is made."""
    return replaced(callbacks, "_async_train", False)


@functools.cache
def use_one_thread(is_concerned: Callable[[Any], bool]) -> None:
    """Give a `CallbackList` one thread for hooks of batches, if `is_concerned` accepts its model. Runs once.

    Keras gives it a thread for each core and four more, which compete with the training thread for Python's lock. One thread
    makes short steps faster, and calls the hooks in the order of the batches.
    """
    kind: Any = CallbackList
    plain = kind._on_begin

    @functools.wraps(plain)
    def on_begin(self: Any) -> None:
        if self._executor is None and is_concerned(getattr(self, "_model", None)):
            self._executor = ThreadPoolExecutor(1, "abreast-callbacks")
        plain(self)

    kind._on_begin = on_begin
