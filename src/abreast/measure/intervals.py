"""Intervals of time as sorted, disjoint `(start, end)` pairs of whole nanoseconds, and what one does with them.

Imports nothing of abreast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same times, sorted and disjoint; empty ones are left out. All other functions want such lists."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def within(intervals: Sequence[Interval], start: int, end: int) -> list[Interval]:
    """What of them lies between two times."""
    return [(max(a, start), min(b, end)) for a, b in intervals if a < end and b > start]


def without(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The times in `some` and not in `others`."""
    if not others or not some:
        return list(some)
    left: list[Interval] = []
    for start, end in some:
        for other_start, other_end in within(others, start, end):
            if other_start > start:
                left.append((start, other_start))
            start = other_end
        if start < end:
            left.append((start, end))
    return left


def length(intervals: Iterable[Interval]) -> int:
    total = 0
    for start, end in intervals:
        total += end - start
    return total
