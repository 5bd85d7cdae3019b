"""Which ring through all devices has the fastest slowest link. Imports nothing of abreast."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

Pair = tuple[int, int]


def slowest_of_fastest_ring(rates: Mapping[Pair, float], num_devices: int) -> float | None:
    """The slowest link of the ring whose slowest link is the fastest; None where no ring leads through all of them.

    `rates` has each pair both ways round. A ring of all devices need not use every link.
    """
    levels = sorted(set(rates.values()))
    best = None
    while levels:  # by bisection: links that suffice for a ring still do so with slower ones added
        middle = len(levels) // 2
        if has_ring([pair for pair, rate in rates.items() if rate >= levels[middle]], num_devices):
            best, levels = levels[middle], levels[middle + 1 :]
        else:
            levels = levels[:middle]
    return best


def has_ring(links: Collection[Pair], num_devices: int) -> bool:
    """Whether these links lead once through every device, and back to the first."""
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
