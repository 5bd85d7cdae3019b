"""How far the numbers of two runs are apart at most: for tests, and for bodies in workers. Imports no framework."""

from __future__ import annotations

from typing import Any

import numpy as np


def largest_difference(some: Any, others: Any) -> float:
    """Over two arrays, or lists or dicts of them, of the same shape; infinite where a number is none (`nan > 1` is false)."""
    if isinstance(some, dict):
        assert some.keys() == others.keys(), some.keys() ^ others.keys()
        return largest_difference(list(some.values()), [others[name] for name in some])
    if isinstance(some, list | tuple):
        return max(largest_difference(one, other) for one, other in zip(some, others, strict=True))
    one, other = np.asarray(some, "float64"), np.asarray(others, "float64")
    assert one.shape == other.shape, f"{one.shape} and {other.shape}"
    largest = float(np.max(np.abs(one - other), initial=0.0))
    return largest if np.isfinite(largest) else float("inf")
