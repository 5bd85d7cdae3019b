"""The distance of two arrays, where much larger numbers stand beside the ones that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Worker, Workers


@pytest.fixture
def worker(workers: Workers) -> Worker:
    if workers.backend != "torch":
        pytest.skip("NumPy only; once is enough")
    return workers.abreast


def distance(expected: Any, found: Any) -> float:
    """In a worker."""
    from abreast.exact import rows

    return rows.distance(expected, found, sees_hidden=True)


@pytest.mark.parametrize("rows", [1, 4, 32])
@pytest.mark.parametrize("columns", [3, 50])
def test_a_difference_beside_a_column_of_time_stamps_is_seen(worker: Worker, rows: int, columns: int) -> None:
    values = np.random.default_rng(0).uniform(1, 2, (rows, columns))
    values[:, 0] = 1.7e9
    other = values.copy()
    other[:, 1] += 0.5
    assert worker.run(distance, expected=values, found=other) > 0.2


def test_a_difference_in_one_small_column_of_many_is_seen(worker: Worker) -> None:
    values = np.random.default_rng(0).uniform(1e8, 2e8, (8, 400))
    values[:, 7] = 1.0
    other = values.copy()
    other[:, 7] = 2.0
    assert worker.run(distance, expected=values, found=other) > 0.9


def test_what_rounding_leaves_of_large_numbers_is_no_difference(worker: Worker) -> None:
    """PyTorch: one entry of 16,384 was 1e-6 of the largest, and plain convolutions were said to relate rows."""
    values = np.random.default_rng(0).normal(size=(1, 8, 8, 256)).astype("float32")
    values[0, 3, 3, 7] = 1e-6
    other = values + np.float32(1e-7)
    assert worker.run(distance, expected=values, found=other) < 1e-6


def relation(whole: Any, parts: Any, noise: float = 1e-6) -> str:
    """In a worker."""
    from abreast.exact import rows

    return rows.follows_rows(whole, parts, [2, 2], noise)


def test_numbers_that_overflowed_show_no_relation(worker: Worker) -> None:
    whole, one, other = np.array([3.0, np.inf, 2.0]), np.array([4.0, np.inf, np.inf]), np.array([2.0, 1.0, -np.inf])
    assert worker.run(relation, whole=whole, parts=[one, other]) == "mean"
    assert worker.run(relation, whole=whole[1:], parts=[one[1:], other[1:]]) == "mean"
    assert worker.run(relation, whole=whole + 1, parts=[one, other]) == "neither"


def test_a_small_number_in_float16_follows_the_rows_in_the_way_that_is_much_nearer(worker: Worker) -> None:
    parts, noise = [np.array(1.03), np.array(-0.97)], 5e-2
    assert worker.run(relation, whole=np.array(0.0601), parts=parts, noise=noise) == "sum"
    assert worker.run(relation, whole=np.array(0.0301), parts=parts, noise=noise) == "mean"
    assert worker.run(relation, whole=np.array(0.045), parts=parts, noise=noise) == "mean"
