"""Whether a `CallbackList` calls hooks of batches in the thread that trains, or in threads of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from abreast.replacing import replaced

__all__ = ["called_at_once"]


def called_at_once(callbacks: Any) -> AbstractContextManager[None]:
    """Inside, hooks of training batches run in the thread that trains. A `CallbackList` decides that when it is made."""
    return replaced(callbacks, "_async_train", False)
