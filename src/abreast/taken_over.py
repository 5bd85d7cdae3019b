"""The strategies of a script that abreast takes over: each is reported once, and kept for the verdict of `abreast check`."""

from __future__ import annotations

from abreast.stderr import tell_once

_names: list[str] = []


def take_over(name: str, meaning: str) -> None:
    """Report that abreast takes over a strategy, and what that means; once for each name."""
    if name not in _names:
        _names.append(name)
    tell_once(f"takes over {name}: {meaning}")


def taken_over() -> tuple[str, ...]:
    """The names of what this process has taken over."""
    return tuple(_names)
