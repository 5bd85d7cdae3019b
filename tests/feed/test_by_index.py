"""Sources whose rows depend on their index alone: the parts that processes read of them are together what one process reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.installed import skip_without_grain


class _Bodies:
    """The functions of `index_bodies.py` by name: pytest itself must not import Keras."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(__module__="tests.feed.index_bodies", __name__=name)


bodies = _Bodies()


def as_one(rows: list[int]) -> dict[str, Any]:
    found = dict.fromkeys(("equal", "as many batches", "draws as one", "alike"), True)
    return {**found, "digests": len(rows) * 2, "rows": [rows, rows]}


@pytest.mark.in_turn
def test_the_parts_of_a_loader_are_what_one_process_reads(workers: Workers) -> None:
    shuffled, in_order, by_workers, with_generator = workers.abreast.run(bodies.loaders)
    assert shuffled == by_workers == with_generator == as_one([8, 8, 6])
    assert in_order == {**as_one([8, 8]), "digests": 2}  # both epochs have the same rows
    assert workers.abreast.run(bodies.a_loader_over_two_data_sets_is_read_by_index)


@pytest.mark.in_turn
def test_a_process_reads_its_own_rows_and_those_that_all_compare(workers: Workers) -> None:
    # Of batches of 8, 8 and 6 rows: half of them, all of the first one, and one of each other.
    assert workers.abreast.run(bodies.rows_that_are_read) == [11 + 8 + 2] * 2


@pytest.mark.in_turn
def test_rows_that_depend_on_more_than_their_index_are_refused(workers: Workers) -> None:
    assert workers.abreast.run(bodies.rows_that_change).startswith(
        "row 4 of batch 0 has other values when the data set is asked again for the same index\nhint: take abreast_by_index off"
    )


@pytest.mark.in_turn
def test_loaders_whose_rows_may_depend_on_one_another_are_read_whole(workers: Workers) -> None:
    found, told = workers.abreast.run(bodies.loaders_read_whole)
    assert found == [True] * 5
    assert [line.partition("\n")[0].rpartition(": ")[2] for line in told] == [
        *("it has a collate_fn", "it has persistent_workers=True", "it has a class of its own")
    ]


@pytest.mark.in_turn
def test_a_restart_is_not_told_what_processes_read(workers: Workers) -> None:
    assert workers.abreast.run(bodies.a_restart_asks_a_loader) == [False, []]


@pytest.mark.in_turn
def test_the_parts_of_a_data_set_of_grain_are_what_one_process_reads(workers: Workers) -> None:
    skip_without_grain()
    batched, dropped, repeated = workers.abreast.run(bodies.grain_datasets)
    assert batched == {**as_one([8, 8, 6]), "digests": 3}
    assert dropped == {**as_one([8, 8]), "digests": 2}
    assert repeated == {**as_one([8, 8, 8, 8, 8, 4]), "digests": 6}


@pytest.mark.in_turn
def test_data_sets_of_grain_whose_rows_have_no_number_are_read_whole(workers: Workers) -> None:
    assert workers.abreast.run(bodies.grain_datasets_read_whole) == [True] * 4
