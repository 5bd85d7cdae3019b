"""A note of whether abreast or the user made torch's default process group."""

from __future__ import annotations

_made: list[bool] = []


def note() -> None:
    """Record that abreast makes the group: outside steps, the other ranks do not take part in exchanges."""
    _made.append(True)


def exists() -> bool:
    return bool(_made)
