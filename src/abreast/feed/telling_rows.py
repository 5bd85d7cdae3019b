"""Rows of a batch that show how code treats rows: the first ones, and rows with numbers of a kind that those lack.

Code often leaves out rows by a number (0 for padding, -1 or 255 for no label, NaN for no value), or counts the ones, and then
divides by the number of the other rows. Rows without such numbers do not show it. Imports no framework.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import tree

_MOST_ENTRIES = 1 << 14  # of an array that are searched at a step
_MOST_ENTRIES_ONCE = 1 << 24
_BLOCKS = 64  # evenly over a larger array; each step searches another part of it
_STRIDE = 9973  # the part moves by this from step to step
_MOST_OF_A_KIND = 3  # rows
_KINDS: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan,
    "negative": lambda array: (array < 0) & (array == np.rint(array)),
    "zero": lambda array: array == 0,
    "one": lambda array: array == 1,
    "255": lambda array: array == 255,
}

Mark = tuple[int, str]  # an array, by its number, and a kind of number that it has


_searches = itertools.count()


def marks(data: Any, known: set[Mark]) -> set[Mark]:
    """The kinds of numbers in a batch's arrays, without the known ones; of a large array, in a part of it."""
    search = next(_searches)
    return {
        (number, kind)
        for number, leaf in enumerate(tree.flatten(data))
        if (array := _numbers(_part(leaf, search))) is not None
        for kind, is_of_kind in _KINDS.items()
        if (number, kind) not in known and is_of_kind(array).any()
    }


def telling_rows(data: Any, count: int) -> list[int]:
    """Indices of `count` rows: the first ones; rows with numbers of a kind that these lack replace up to half of them.

    These come to the end of each half, more of them to the second, so that the halves differ.
    """
    chosen = list(range(count))
    pairs = zip(chosen[::-1], chosen[: count // 2][::-1], strict=False)
    places = [place for pair in pairs for place in pair][: count // 2]
    for leaf in tree.flatten(data):
        array: Any = _numbers(leaf) if _size(leaf) <= _MOST_ENTRIES_ONCE else None
        for is_of_kind in () if array is None else _KINDS.values():
            numbers = is_of_kind(array.reshape(len(array), -1)).sum(axis=1)
            if (numbers[chosen] == numbers[0]).all():
                for row in np.flatnonzero(numbers != numbers[0])[: min(_MOST_OF_A_KIND, len(places))]:
                    chosen[places.pop(0)] = int(row)
    return chosen


def _size(leaf: Any) -> int:
    return math.prod(map(int, getattr(leaf, "shape", (0,))))


def _part(leaf: Any, search: int) -> Any:
    """The array, or `_BLOCKS` blocks of a larger one; of one row, if the rows do not follow one another in memory."""
    if _size(leaf) <= _MOST_ENTRIES:
        return leaf
    is_of_torch = hasattr(leaf, "is_contiguous")
    array: Any = leaf if is_of_torch else np.asarray(leaf)
    if not (array.is_contiguous() if is_of_torch else array.flags.c_contiguous):
        return _part(array[search % len(array)].reshape(-1), search)
    width, length = _size(array) // _BLOCKS, _MOST_ENTRIES // _BLOCKS
    first = search * _STRIDE % (width - length + 1)
    return array.reshape(-1)[: _BLOCKS * width].reshape(_BLOCKS, width)[:, first : first + length]


def _numbers(leaf: Any) -> Any:
    """An array of NumPy; None for no numbers."""
    if not hasattr(leaf, "__array__") or not _size(leaf):
        return None
    if hasattr(leaf, "detach"):  # of PyTorch: a copy, because a tensor whose memory was given away counts as shared
        leaf = leaf.detach().cpu()
        leaf = leaf.float() if leaf.is_floating_point() else leaf.clone()
    array = np.asarray(leaf)
    return array if array.dtype.kind in "fiub" else None
