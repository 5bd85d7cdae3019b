"""The axis of a tensor that holds the rows, and the difference between two tensors that should hold the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_HIDING = 1e5  # a number so many times larger than others hides their differences
# A column of small numbers has at least so many entries, or they are at least this share of all numbers: of an array of one kind
# of numbers, some 3e-5 are that small by chance, and are what rounding left of larger ones.
_COLUMN = 4
_SHARE = 1e-2
_COARSE = 1e-2  # noise within which a small number may be both the mean and the sum of the parts
_MUCH_NEARER = 8


@dataclass(frozen=True)
class RowAxis:
    """An axis, by its index, that has `times` entries for each row: side by side, or `is_strided`, as many rows apart."""

    index: int
    times: int
    is_strided: bool = False


@dataclass(frozen=True)
class RowRange:
    """Rows `first` to `last` of a batch of `total`."""

    total: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first


def row_axis(whole: Sequence[int], cut: Sequence[int], part: RowRange) -> RowAxis | None:
    """The axis whose length follows the rows; None if the shapes are equal. Raises `ValueError` for any other difference."""
    differing = [index for index, (a, b) in enumerate(zip(whole, cut, strict=False)) if a != b]
    if len(whole) == len(cut) and not differing:
        return None
    if len(whole) == len(cut) and len(differing) == 1:
        index = differing[0]
        times, rest = divmod(whole[index], part.total)
        if times and not rest and cut[index] == times * part.rows:
            return RowAxis(index, times)
    raise ValueError(f"shapes {tuple(whole)} and {tuple(cut)} differ by more than rows")


def ways_to_cut(whole: Any, axis: RowAxis | None, part: RowRange) -> list[Any]:
    """The part's rows of an array, cut in each possible way: the entries of a row side by side, or strided."""
    if axis is None:
        return [whole]
    first, last = part.first * axis.times, part.last * axis.times
    ways = [whole[(slice(None),) * axis.index + (slice(first, last),)]]
    if axis.times > 1:
        before, after = whole.shape[: axis.index], whole.shape[axis.index + 1 :]
        strided = whole.reshape(*before, axis.times, part.total, *after)
        strided = strided[(slice(None),) * (axis.index + 1) + (slice(part.first, part.last),)]
        ways.append(strided.reshape(*before, -1, *after))
    return ways


def distance(expected: Any, found: Any, sees_hidden: bool = False) -> float:
    """The largest difference, relative to the largest magnitude; infinite where shapes, NaN or infinities differ.

    `sees_hidden`: if some numbers are much larger than others, also the largest difference of the others, relative to them.
    """
    if expected.shape != found.shape:
        return float("inf")
    if np.array_equal(
        expected, found
    ):  # the usual case, and cheap: a large model's activations are some hundred megabytes
        return 0.0
    if expected.dtype.kind not in "fcV":  # integers, booleans, strings; NumPy's kind of bfloat16 is "V"
        return float("inf")
    if expected.dtype.itemsize < 4:
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    with np.errstate(all="ignore"):
        largest = float(np.abs(expected - found).max())
    if np.isfinite(largest):
        if not largest:
            return 0.0
        far = largest / float(max(np.abs(expected).max(), np.abs(found).max()))
        return max(far, _distance_of_hidden(expected, found)) if sees_hidden else far
    return _distance_of_finite(expected, found)


def _distance_of_hidden(expected: Any, found: Any) -> float:
    """The distance of the numbers beside which much larger ones stand: a column of time stamps, -1e9 for a mask."""
    sizes = np.abs(expected).astype(np.float64)
    hidden = _hidden(sizes)
    if not hidden.any():
        return 0.0
    return float(np.abs(found[hidden].astype(np.float64) - expected[hidden]).max() / sizes[hidden].max())


def _hidden(sizes: Any) -> Any:
    """The numbers beside which much larger ones stand, without the few that are that small by chance, by rounding."""
    small = sizes <= sizes.max() / _HIDING
    hidden = small & (sizes > 0)
    if np.count_nonzero(hidden) >= _SHARE * sizes.size:
        return hidden
    columns = np.zeros_like(small)
    for axis, length in enumerate(sizes.shape):
        if sizes.size >= _COLUMN * length:
            columns |= small.all(axis=tuple(each for each in range(sizes.ndim) if each != axis), keepdims=True)
    return hidden & columns


def _distance_of_finite(expected: Any, found: Any) -> float:
    finite = np.isfinite(expected) & np.isfinite(found)
    if not np.array_equal(np.where(finite, 0, expected), np.where(finite, 0, found), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(found[finite].astype(np.float64) - expected[finite]).max())
    return largest / max(size(np.abs(expected)), size(np.abs(found))) if largest else 0.0


def size(values: Any) -> float:
    """The largest finite magnitude."""
    magnitudes = np.abs(np.asarray(values, np.float64))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0))


def rising(shape: Sequence[int]) -> Any:
    """Numbers from 1/4 to 3/4, again and again."""
    return (np.arange(math.prod(shape), dtype="float32") % 7 / 12 + 0.25).reshape(shape)


def are_rows_of(whole: Any, cut: Sequence[Any], parts: Sequence[RowRange], noise: float) -> bool:
    """Whether arrays of parts of a batch have the rows of the whole batch's array. `noise`: relative to its largest number."""
    if any(each.ndim != whole.ndim for each in cut):
        return False
    if whole.dtype.kind not in "fiub":
        return True
    if all(each.shape[1:] == whole.shape[1:] for each in cut) and sum(map(len, cut)) == len(whole):
        joined, expected = (each.astype(np.float64) for each in (np.concatenate(cut), whole))
        return np.allclose(joined, expected, rtol=0, atol=noise * size(expected), equal_nan=True)
    try:
        axes = [row_axis(whole.shape, each.shape, part) for each, part in zip(cut, parts, strict=True)]
    except ValueError:
        return False
    return all(
        min(distance(way, each) for way in ways_to_cut(whole, axis, part)) <= noise
        for each, axis, part in zip(cut, axes, parts, strict=True)
    )


def _without_overflow(whole: Any, *parts: Any) -> tuple[Any, list[Any]]:
    """The values without the places where one is infinite or NaN; all places, if no value has an infinite number."""
    values = [whole, *parts]
    if not any(np.isinf(each).any() for each in values) or len({each.shape for each in values}) > 1:
        return whole, list(parts)
    finite = np.logical_and.reduce([np.isfinite(each) for each in values])
    return whole[finite], [each[finite] for each in parts]


def follows_rows(whole: Any, parts: Sequence[Any], rows: Sequence[int], noise: float) -> str:
    """The relation of a batch's value to the values of its parts, which have `rows` rows: "mean", "sum", "neither" or "open".

    "open": all are 0. "one part's": a sum that one part has alone, because the others have 0. It may be a mean over some rows.
    Numbers that overflowed in one of the values show nothing.
    """
    whole, parts = _without_overflow(*(np.asarray(each, np.float64) for each in (whole, *parts)))
    mean = sum(part * number for part, number in zip(parts, rows, strict=True)) / sum(rows)
    largest = max(size(each) for each in (whole, *parts))
    if whole.size and not any(map(np.any, (whole, *parts))):
        return "open"
    near = {
        name: size(whole - expected)
        for name, expected in (("mean", mean), ("sum", sum(parts)))
        if np.allclose(whole, expected, rtol=0, atol=noise * largest, equal_nan=True)
    }
    if noise > _COARSE and len(near) > 1 and _MUCH_NEARER * near["sum"] < near["mean"]:
        del near["mean"]
    if near:
        return "one part's" if "mean" not in near and sum(map(np.any, parts)) == 1 else next(iter(near))
    return "neither"
