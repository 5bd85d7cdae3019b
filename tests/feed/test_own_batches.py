"""Sources under several processes: each reads its own rows of the global batches, or gives rows of its own to them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers


class _Bodies:
    """The functions of `own_bodies.py` by name: pytest itself must not import Keras."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(__module__="tests.feed.own_bodies", __name__=name)


bodies = _Bodies()


def test_processes_with_fewer_rows_take_part_without_rows_until_all_have_ended(workers: Workers) -> None:
    assert workers.abreast.run(bodies.ragged_arrays) == [
        (3, [[[4, 4], [0.0, 1.0, 2.0, 3.0]], [[4, 1], [4.0, 5.0, 6.0, 7.0]], [[2, 0], [8.0, 9.0]]]),
        (3, [[[4, 4], [100.0, 101.0, 102.0, 103.0]], [[4, 1], [104.0]], [[2, 0], []]]),
    ]


def test_processes_with_arrays_agree_once_on_all_steps_with_as_many_rows(workers: Workers) -> None:
    counts, num_messages = workers.abreast.run(bodies.messages_of_arrays)
    assert counts == [[(4, 4), (4, 4), (4, 2), (4, 0), (3, 0)]] * 2
    assert num_messages == 1 + 4  # the number of batches; steps 0, 2, 3 and 4


def test_generators_end_together_at_the_end_of_the_longest(workers: Workers) -> None:
    first, second = workers.abreast.run(bodies.ragged_generators)
    assert first == (None, [[[3, 2], [0.0, 1.0, 2.0]], [[1, 2], [3.0]], [[0, 2], []], [[0, 2], []]])
    assert [counts for counts, _ in second[1]] == [[3, 2], [1, 2], [0, 2], [0, 2]]


def test_processes_that_give_the_same_rows_are_refused(workers: Workers) -> None:
    found = workers.abreast.run(bodies.same_rows)
    assert len(set(found)) == 1
    assert found[0].startswith(
        "DataError: ranks 0 and 2 give the same rows, which would count twice\nhint: with source="
    )


def test_processes_that_shuffle_the_same_rows_otherwise_are_refused(workers: Workers) -> None:
    found = workers.abreast.run(bodies.same_rows_in_other_orders)
    assert found[0].startswith("DataError: ranks 0 and 1 give the same rows, which would count twice")


def test_rows_that_are_all_alike_may_be_the_same_in_two_processes(workers: Workers) -> None:
    assert workers.abreast.run(bodies.equal_rows) == [(1, [[[3, 3], [0.0, 0.0, 0.0]]])] * 2


def test_sources_with_other_arrays_are_refused(workers: Workers) -> None:
    found = workers.abreast.run(bodies.other_arrays)
    assert len(set(found)) == 1
    assert "different arrays: x (1,) float32 on rank 0, and x (1,) int32 on rank 1" in found[0]


@pytest.mark.parametrize("body", [bodies.empty_source, bodies.empty_data_set], ids=["arrays", "data set"])
def test_a_process_without_rows_is_named_by_all(workers: Workers, body: Any) -> None:
    found = workers.abreast.run(body)
    assert found == ["DataError: the data source of rank 1 is empty\nhint: give each process at least one row"] * 2


def test_a_source_that_fails_in_one_process_ends_all(workers: Workers) -> None:
    first, second = workers.abreast.run(bodies.failing_source)
    assert first == "KeyError: 'a file is gone'"
    assert second.startswith("DataError: the data source of rank 0 failed: KeyError: 'a file is gone'")


@pytest.mark.parametrize("shuffle", [False, True, "batch"])
def test_processes_read_their_rows_of_keras_batches_of_arrays(workers: Workers, shuffle: Any) -> None:
    joined, one_digest, held = workers.abreast.run(bodies.array_batches, shuffle=shuffle)
    assert joined
    assert one_digest
    assert held == [[(16, 6), (16, 6), (3, 1)], [(16, 5), (16, 5), (3, 1)], [(16, 5), (16, 5), (3, 1)]]


def test_another_order_and_other_rows_are_noticed(workers: Workers) -> None:
    assert workers.abreast.run(bodies.other_order_or_rows) == [True, False, False]


def test_processes_decode_their_own_images_only(workers: Workers, tmp_path: Path) -> None:
    equal, one_digest, num_digests, decoded = workers.abreast.run(bodies.image_batches, folder=str(tmp_path / "pack"))
    assert equal
    assert one_digest
    assert num_digests == 3
    assert decoded == [5, 6]  # of 11: batches of 4, 4 and 3


def test_source_is_one_of_two_words(workers: Workers) -> None:
    assert workers.abreast.run(bodies.unknown_kind).startswith("source='mine' is not allowed\nhint: give \"global\" or")


@pytest.mark.in_turn
def test_one_process_trains_the_same_with_rows_of_its_own(workers: Workers) -> None:
    own, whole = workers.abreast.run(bodies.of_one_process)
    assert own == whole
