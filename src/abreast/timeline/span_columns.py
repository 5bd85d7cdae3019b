"""Spans as columns of whole numbers to compute with: their begin, their end, and the numbers attached to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from abreast.spans import Span

Columns = npt.NDArray[np.int64]  # rows: begin, end and any others; columns: spans. Two rows are `intervals.Intervals`

_MOST_WAITING = 8192  # spans kept for the next step; a long validation leaves many that belong to no step


def columns(spans: Sequence[Span], *numbers: str) -> Columns:
    more = [[span.numbers.get(name, 0) for span in spans] for name in numbers]
    return np.array(([span.start_ns for span in spans], [span.end_ns for span in spans], *more), np.int64)


def none(*numbers: str) -> Columns:
    return columns((), *numbers)


def in_order(*some: Columns) -> Columns:
    """All columns together, sorted by begin; at most the newest `_MOST_WAITING`."""
    joined = np.concatenate(some, axis=1)
    return joined[:, joined[0].argsort(kind="stable")[-_MOST_WAITING:]]
