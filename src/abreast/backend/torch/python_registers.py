"""Parts of registers that a process keeps for all of its code: the filters of warnings, and Keras's custom objects.

A step may read them without naming them. See `python_parts.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from abreast.backend.torch import patches
from abreast.backend.torch.python_parts import Edit, Named, Part, Step
from abreast.backend.torch.users_code import is_users
from abreast.keras_private.saving import custom_objects, register, unregister


class Filters(Part):
    """The filters of warnings. One may turn a warning of a step into an error."""

    def look(self) -> list[Any]:
        return [*warnings.filters]

    def all_edits(self) -> list[Edit]:
        return [("whole", self.seen)]

    def _edits(self, new: Any) -> list[Edit]:
        return [("whole", new)] if new != self.seen else []

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        warnings.resetwarnings()  # tells Python that the filters change
        warnings.filters[:] = edit[1]  # type: ignore[index]


class CustomObjects(Named):
    """Keras's custom objects by name. Their contents are watched only where other values lead to them."""

    def live(self) -> Any:
        return custom_objects()

    def held(self) -> Iterator[tuple[Step, Any]]:
        return iter(())

    def all_edits(self) -> list[Edit]:
        return [edit for edit in super().all_edits() if _is_users(edit[2])]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if edit[0] == "put":
            register(edit[1], edit[2])
        else:
            unregister(edit[1])


def _is_users(value: Any) -> bool:
    """Whether a worker lacks a custom object: a package registers its own ones when it is imported."""
    return patches.is_of_the_user(value) or (isinstance(value, type) and is_users(value.__module__))


REGISTERS: tuple[type[Part], ...] = (Filters, CustomObjects)
