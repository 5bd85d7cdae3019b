"""The strategies of a script that abreast takes over: each is reported once, and kept for the verdict of `abreast check`."""

from __future__ import annotations

from abreast.stderr import tell_once

_reported: dict[str, str] = {}


def take_over(name: str, meaning: str) -> None:
    """Report that abreast takes over a strategy, and what that means; once for each name."""
    _reported.setdefault(name, f"{name} ({meaning})")
    tell_once(f"takes over {name}: {meaning}")


def taken_over() -> tuple[str, ...]:
    """What this process has taken over: each name, with its meaning."""
    return tuple(_reported.values())
