"""Rows that show how code treats rows: the first ones, unless others have a kind of number that these lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from abreast.feed import HostBatch
from abreast.feed.telling_rows import marks, telling_rows

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 4)).astype("float32")


def test_rows_that_are_alike_are_the_first_ones() -> None:
    assert telling_rows((X, X[:, 0], None), 15) == list(range(15))


@pytest.mark.parametrize("number", [-1, 0, 1, 255, np.nan])
def test_rows_with_a_number_that_the_first_ones_lack_are_among_them_more_in_one_half(number: float) -> None:
    y = 0.5 + np.abs(X[:, :1])
    y[[20, 30, 40, 50]] = number
    chosen = telling_rows((X, y), 15)
    assert [row for row in chosen if row >= 15] == [30, 40, 20]
    assert chosen[6] == 30 and chosen[13:] == [40, 20]


def test_rows_that_have_it_themselves_are_kept() -> None:
    y = np.ones(60, "int32")
    y[[3, 40]] = -1
    assert telling_rows((y,), 15) == list(range(15))


def test_at_most_half_of_the_rows_make_way() -> None:
    columns = [np.full(60, 7.0) for _ in range(8)]
    for number, column in enumerate(columns):
        column[20 + number] = -1
    assert sum(row >= 15 for row in telling_rows(columns, 15)) == 7


def test_rows_of_a_batch_are_telling_ones() -> None:
    y = np.full(60, 2)
    y[50] = -1
    assert -1 in HostBatch.of((X, y)).telling_rows(15)[1]
    assert len(HostBatch.of((X, y)).telling_rows(70)[1]) == 70


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([2.5, -2.5]), set()),
        (np.array([2.0, -2.0, 0.0]), {(0, "negative"), (0, "zero")}),
        (np.array([1, 255], "uint8"), {(0, "one"), (0, "255")}),
        (np.array([np.nan, 3]), {(0, "nan")}),
        (np.array([True, False]), {(0, "one"), (0, "zero")}),
        (np.array(["text"]), set()),
        (np.zeros((200, 100)), set()),
    ],
)
def test_marks_are_the_kinds_of_numbers(array: Any, expected: set[Any]) -> None:
    assert marks((array, None), set()) == expected
    assert marks((array, None), expected) == set()
