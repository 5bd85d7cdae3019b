"""Whether abreast made torch's default process group, or the user did. Imports nothing."""

from __future__ import annotations

_made: list[bool] = []


def note() -> None:
    """Say that abreast makes the group: of what runs outside of a step, the other ranks know nothing."""
    _made.append(True)


def exists() -> bool:
    return bool(_made)
