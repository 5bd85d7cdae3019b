"""The nearest of the names that are known. Imports nothing of abreast."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Up to three names like this one; the first names that there are, when none is like it."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=0.4)
    contains = [each for each in by_lower if name.lower() in each or each in name.lower()]
    return [by_lower[each] for each in dict.fromkeys([*found, *contains])][:most] or list(by_lower.values())[:most]
