"""The thread in which a `CallbackList` calls hooks of batches: the thread that trains, or one of its own; `default` marks a
method that is no hook."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from keras.src.utils.python_utils import default

from abreast.replacing import replaced

__all__ = ["called_at_once", "default"]


def called_at_once(callbacks: Any) -> AbstractContextManager[None]:
    """Inside, hooks of training batches run in the thread that trains. Otherwise, a `CallbackList` decides when it is made."""
    return replaced(callbacks, "_async_train", False)
