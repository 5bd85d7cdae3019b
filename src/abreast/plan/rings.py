"""The best ring through all devices: the ring whose slowest link is the fastest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

Pair = tuple[int, int]


def slowest_of_fastest_ring(rates: Mapping[Pair, float], num_devices: int) -> float | None:
    """The rate of the slowest link of the best ring; None if no ring leads through all devices.

    `rates` has each pair in both orders. A ring does not need every link.
    """
    levels = sorted(set(rates.values()))
    best = None
    while levels:  # bisection: a ring remains when slower links are added
        middle = len(levels) // 2
        if has_ring([pair for pair, rate in rates.items() if rate >= levels[middle]], num_devices):
            best, levels = levels[middle], levels[middle + 1 :]
        else:
            levels = levels[:middle]
    return best


def has_ring(links: Collection[Pair], num_devices: int) -> bool:
    """Whether a ring over these links leads through every device once and back to the first."""
    near = [0] * num_devices
    for first, second in links:
        near[first] |= 1 << second

    @cache  # at most 2^(n - 1) x n states: 16 devices take some tenths of a second at worst
    def goes_on(last: int, left: int) -> bool:
        if not left:
            return bool(near[last] & 1)
        steps = near[last] & left
        return any(steps >> other & 1 and goes_on(other, left & ~(1 << other)) for other in range(1, num_devices))

    return goes_on(0, (1 << num_devices) - 2)
