"""The strategies of a script that abreast takes over: each is reported once, and kept for the verdict of `abreast check`."""

from __future__ import annotations

from abreast.stderr import tell_once

_reported: dict[str, str] = {}


def take_over(name: str, meaning: str) -> None:
    """Report, once for each name, that abreast takes over a strategy, with the consequences."""
    _reported.setdefault(name, f"{name} ({meaning})")
    tell_once(f"takes over {name}: {meaning}")


def taken_over() -> tuple[str, ...]:
    """The names that this process has taken over, each with its consequences."""
    return tuple(_reported.values())
