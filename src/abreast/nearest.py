"""The names that come nearest to one that nobody knows, for the hint of an error. Imports nothing of abreast."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 3
_LIKE = 0.5


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean resnet50 or resnet101?`; where none is near, all of them."""
    names = {each.lower(): each for each in known}
    near = [names[each] for each in difflib.get_close_matches(name.lower(), names, _MOST, _LIKE)]
    if not near:
        return f"known are {', '.join(names.values())}"
    return f"did you mean {' or '.join([', '.join(near[:-1]), near[-1]] if len(near) > 1 else near)}?"
