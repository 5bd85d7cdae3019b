"""Spans as columns of whole numbers to compute with: their begin, end, and numbers that were left with them.

Imports `spans` and NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from abreast.spans import Span

Columns = npt.NDArray[np.int64]  # begins, ends and more x spans; without more, they are `intervals.Intervals`

_MOST_WAITING = 8192  # for the next step: a long validation leaves many, which are of no step


def columns(spans: Sequence[Span], *numbers: str) -> Columns:
    more = [[span.numbers.get(name, 0) for span in spans] for name in numbers]
    return np.array(([span.start_ns for span in spans], [span.end_ns for span in spans], *more), np.int64)


def none(*numbers: str) -> Columns:
    return columns((), *numbers)


def in_order(*some: Columns) -> Columns:
    """All of them by their begins; of very many the newest."""
    joined = np.concatenate(some, axis=1)
    return joined[:, joined[0].argsort(kind="stable")[-_MOST_WAITING:]]
