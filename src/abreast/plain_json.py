"""Reads JSON that people may have edited, so that no number or nesting in it causes an unexpected error later."""

from __future__ import annotations

import json
import math
from typing import Any

_MOST_DIGITS = 300  # a whole number of more digits may be too large for a float


def parse(text: str | bytes) -> Any:
    """Parse JSON like `json.loads`, and define two cases that it leaves open.

    A whole number that is too large for a float becomes infinite. Nesting that is too deep raises `ValueError`, as all
    invalid JSON does.
    """
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def positive(value: Any) -> bool:
    """True if a parsed value is a finite number above zero."""
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value) and value > 0


def measurable(value: Any) -> bool:
    """True for a plausible time, count or rate: sums and quotients of such numbers stay finite."""
    return positive(value) and 1e-15 < value < 1e15


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
