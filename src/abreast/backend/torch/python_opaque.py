"""Parts of values whose contents have no address: they are compared as pickle writes them.

After a change the model is sent again: an edit of the copy in another process would need a path to it. See `python_parts.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from abreast.backend.torch.pickle_model import as_bytes
from abreast.backend.torch.python_parts import Edit, Part
from abreast.backend.torch.python_same import is_plain
from abreast.errors import ModelError
from abreast.keras_private.models import KerasSaveable

ANEW: Edit = ("anew", None)
UNSENT: Edit = ("unsent", None)  # no process can make this change in another one
_MOST_BYTES = 1 << 16  # of hidden state


class Opaque(Part):
    """The whole state of an object of Python's library or of an extension."""

    def look(self) -> bytes | None:
        return as_bytes(self.owner)

    def _edits(self, new: Any) -> list[Edit]:
        return [ANEW] if new != self.seen else []


class Hidden(Opaque):
    """The state that C code of a package keeps for an object, if it is small: pickling takes time at each comparison."""

    _is_large = False

    def look(self) -> bytes | None:
        state = None if self._is_large else as_bytes(self.owner)
        self._is_large = self._is_large or (state is not None and len(state) > _MOST_BYTES)
        return None if self._is_large else state

    def _edits(self, new: Any) -> list[Edit]:
        return [] if self._is_large else super()._edits(new)


class Unaddressed(Opaque):
    """The objects among the members of a set, the keys of a dict and the entries of an array, with their attributes."""

    def look(self) -> bytes | None:
        return as_bytes(objects_of(self.owner))


class Position(Opaque):
    """The position in a text file that is open for reading, which a worker gets as text in memory."""

    def look(self) -> Any:
        file = self.owner
        if file.closed or getattr(file, "mode", None) != "r":
            return None
        with suppress(OSError, ValueError):  # the user's code iterates over it, or it has no position
            return file.tell()


class Lock(Part):
    """Whether a lock is held; a `threading.RLock`, whether this thread holds it."""

    def look(self) -> Any:
        return self.owner.locked() if hasattr(self.owner, "locked") else self.owner._is_owned()

    def _edits(self, new: Any) -> list[Edit]:
        return [UNSENT] if new != self.seen else []


class Bases(Part):
    """The bases of a class, which other processes cannot change in their class."""

    def look(self) -> Any:
        # Keras itself gives the class of a functional model other bases.
        return () if issubclass(self.owner, KerasSaveable) else self.owner.__bases__

    def _edits(self, new: Any) -> list[Edit]:
        if new != self.seen:
            raise ModelError(
                f"the bases of the class {self.owner.__qualname__} have changed since the worker processes got it",
                "give the class its bases before the first training",
            )
        return []


def objects_of(values: Any) -> list[Any]:
    """The members, keys or entries that are not plain."""
    return [each for each in (values.flat if isinstance(values, np.ndarray) else values) if not is_plain(each)]
