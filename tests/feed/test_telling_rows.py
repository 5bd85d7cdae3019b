"""Rows that show how code treats rows: the first ones, unless others have a kind of number that these lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers

X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")


def chosen(data: Any, count: int) -> list[int]:
    from abreast.feed.telling_rows import telling_rows  # pytest itself must not import Keras

    return telling_rows(data, count)


def kinds(data: Any, known: set[Any]) -> set[Any]:
    from abreast.feed.telling_rows import marks

    return marks(data, known)


def searches_until_found(kind: str, num_searches: int) -> int:
    """The number of searches in a large array until the -1 in a hundredth of it is found."""
    from abreast.feed.telling_rows import marks

    array: Any = np.full((8, 512, 512), 3, "int32")
    array[5, 200:241, 100:612] = -1
    if kind == "not contiguous":
        array = array.transpose(0, 2, 1)
    elif kind == "of the backend":
        import keras

        array = keras.ops.convert_to_tensor(array)
    return next(number for number in range(num_searches) if marks((array,), set()))


def labels(y: Any, count: int) -> Any:
    """The labels among the rows of a batch that are looked at."""
    from abreast.feed import HostBatch

    return HostBatch.of((X, y)).telling_rows(count)[1]


def test_rows_that_are_alike_are_the_first_ones(workers: Workers) -> None:
    assert workers.abreast.run(chosen, data=(X, X[:, 0], None), count=15) == list(range(15))


@pytest.mark.parametrize("number", [-1, 0, 1, 255, np.nan])
def test_rows_with_a_number_that_the_first_ones_lack_are_among_them(workers: Workers, number: float) -> None:
    y = 0.5 + np.abs(X[:, :1])
    y[[20, 30, 40, 50]] = number
    found = workers.abreast.run(chosen, data=(X, y), count=15)
    assert [row for row in found if row >= 15] == [30, 40, 20]
    assert found[6] == 30 and found[13:] == [40, 20]  # more in one half than in the other


def test_rows_that_have_it_themselves_are_kept(workers: Workers) -> None:
    y = np.ones(60, "int32")
    y[[3, 40]] = -1
    assert workers.abreast.run(chosen, data=(y,), count=15) == list(range(15))


def test_at_most_half_of_the_rows_make_way(workers: Workers) -> None:
    columns = [np.full(60, 7.0) for _ in range(8)]
    for number, column in enumerate(columns):
        column[20 + number] = -1
    assert sum(row >= 15 for row in workers.abreast.run(chosen, data=columns, count=15)) == 7


def test_rows_of_a_batch_are_telling_ones(workers: Workers) -> None:
    y = np.full(60, 2)
    y[50] = -1
    assert -1 in workers.abreast.run(labels, y=y, count=15)
    assert len(workers.abreast.run(labels, y=y, count=70)) == 70


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([2.5, -2.5]), set()),
        (np.array([2.0, -2.0, 0.0]), {(0, "negative"), (0, "zero")}),
        (np.array([1, 255], "uint8"), {(0, "one"), (0, "255")}),
        (np.array([np.nan, 3]), {(0, "nan")}),
        (np.array([True, False]), {(0, "one"), (0, "zero")}),
        (np.array(["text"]), set()),
        (np.zeros((200, 100)), {(0, "zero")}),
    ],
)
def test_marks_are_the_kinds_of_numbers(workers: Workers, array: Any, expected: set[Any]) -> None:
    assert workers.abreast.run(kinds, data=(array, None), known=set()) == expected
    assert workers.abreast.run(kinds, data=(array, None), known=expected) == set()


@pytest.mark.parametrize("kind", ["NumPy", "not contiguous", "of the backend"])
def test_a_large_array_is_searched_in_parts(workers: Workers, kind: str) -> None:
    assert workers.abreast.run(searches_until_found, kind=kind, num_searches=200) < 200


def seconds_of_searches(num_searches: int) -> float:
    from time import perf_counter

    from abreast.feed.telling_rows import marks

    array = np.full((64, 512, 512), 0.5, "float32")
    start = perf_counter()
    for _ in range(num_searches):
        marks((array,), set())
    return perf_counter() - start


def test_a_search_of_a_large_array_takes_no_longer_than_one_of_a_part(workers: Workers) -> None:
    assert workers.abreast.run(seconds_of_searches, num_searches=20) / 20 < 0.002  # measured 0.0001; of the whole: 0.05
