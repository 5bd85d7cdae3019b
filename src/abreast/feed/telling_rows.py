"""Rows of a batch that show how code treats rows: the first ones, and rows with numbers of a kind that those lack.

Code often leaves out rows by a number (0 for padding, -1 or 255 for no label, NaN for no value), or counts the ones, and then
divides by the number of the other rows. Rows without such numbers do not show it. Imports no framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import tree

_MOST_ENTRIES = 1 << 14  # of an array that is searched at every step
_MOST_ENTRIES_ONCE = 1 << 20
_MOST_OF_A_KIND = 3  # rows
_KINDS: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan,
    "negative": lambda array: (array < 0) & (array == np.rint(array)),
    "zero": lambda array: array == 0,
    "one": lambda array: array == 1,
    "255": lambda array: array == 255,
}

Mark = tuple[int, str]  # an array, by its number, and a kind of number that it has


def marks(data: Any, known: set[Mark]) -> set[Mark]:
    """The kinds of numbers in a batch's arrays, without the known ones and without large arrays."""
    return {
        (number, kind)
        for number, leaf in enumerate(tree.flatten(data))
        if (array := _numbers(leaf, _MOST_ENTRIES)) is not None
        for kind, is_of_kind in _KINDS.items()
        if (number, kind) not in known and is_of_kind(array).any()
    }


def telling_rows(data: Any, count: int) -> list[int]:
    """Indices of `count` rows: the first ones, of which up to half make way for rows with numbers of a kind that they lack.

    These come to the end of each half, more of them to the second, so that the halves differ.
    """
    chosen = list(range(count))
    pairs = zip(chosen[::-1], chosen[: count // 2][::-1], strict=False)
    places = [place for pair in pairs for place in pair][: count // 2]
    for leaf in tree.flatten(data):
        array = _numbers(leaf, _MOST_ENTRIES_ONCE)
        for is_of_kind in () if array is None else _KINDS.values():
            numbers = is_of_kind(array.reshape(len(array), -1)).sum(axis=1)
            if (numbers[chosen] == numbers[0]).all():
                for row in np.flatnonzero(numbers != numbers[0])[: min(_MOST_OF_A_KIND, len(places))]:
                    chosen[places.pop(0)] = int(row)
    return chosen


def _numbers(leaf: Any, most: int) -> Any:
    """An array of NumPy; None for no numbers, or too many."""
    if not hasattr(leaf, "__array__") or not 0 < math.prod(map(int, leaf.shape)) <= most:
        return None
    if hasattr(leaf, "detach"):  # of PyTorch: a copy, because a tensor whose memory was given away counts as shared
        leaf = leaf.detach().cpu()
        leaf = leaf.float() if leaf.is_floating_point() else leaf.clone()
    array = np.asarray(leaf)
    return array if array.dtype.kind in "fiub" else None
