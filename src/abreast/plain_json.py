"""JSON that people may have edited, read so that nothing in it stops a program later. Imports nothing of abreast."""

from __future__ import annotations

import json
import math
from typing import Any

_MOST_DIGITS = 300  # of a whole number that a float holds


def parse(text: str | bytes) -> Any:
    """As `json.loads`, which leaves two things to chance.

    A whole number that is greater than any float is infinite here, and nesting that is too deep a `ValueError`, as all
    else that is no JSON.
    """
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def positive(value: Any) -> bool:
    """Whether a parsed value is a finite number above zero."""
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value) and value > 0


def measurable(value: Any) -> bool:
    """Whether it is a time, a count or a rate that can be: sums and quotients of such numbers stay finite."""
    return positive(value) and 1e-15 < value < 1e15


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
