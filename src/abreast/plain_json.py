"""Robust JSON: reads files that people may have edited, and writes data in which a number may be NaN.

No number and no nesting causes an unexpected error later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
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


def finite(value: Any, instead: Callable[[float], Any] = lambda _: None) -> Any:
    """The data, with None or another value `instead` of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(each, instead) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each, instead) for each in value]
    return instead(value) if isinstance(value, float) and not math.isfinite(value) else value


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
