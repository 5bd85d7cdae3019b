"""The rule by which checks that cost time follow repeated events: each of the first ones, then ever more rarely."""

from __future__ import annotations

_FIRST = 16


def is_due(count: int) -> bool:
    """Whether the event with this number, from 1, is checked: the first 16, then the 32nd, the 64th, ..."""
    return count <= _FIRST or count.bit_count() == 1
