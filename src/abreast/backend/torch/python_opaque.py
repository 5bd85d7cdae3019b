"""Parts of values whose contents have no address: they are compared as pickle writes them.

After a change the model is sent again: an edit of the copy in another process would need a path to it. See `python_parts.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.backend.torch.pickle_model import as_bytes
from abreast.backend.torch.python_parts import Edit, Part
from abreast.backend.torch.python_same import is_plain
from abreast.errors import ModelError
from abreast.keras_private.models import KerasSaveable

ANEW: Edit = ("anew", None)


class Opaque(Part):
    """The whole state of an object of Python's library or of an extension."""

    def look(self) -> bytes | None:
        return as_bytes(self.owner)

    def _edits(self, new: Any) -> list[Edit]:
        return [ANEW] if new != self.seen else []


class Unaddressed(Opaque):
    """The objects among the members of a set, the keys of a dict and the entries of an array, with their attributes."""

    def look(self) -> bytes | None:
        return as_bytes(objects_of(self.owner))


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
