"""How one step is split, on times that one can add up by hand."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from abreast.measure.intervals import length, merged, within, without
from abreast.measure.step_parts import Parts, split

times = st.integers(0, 100)
intervals = st.lists(st.tuples(times, times), max_size=5)


def test_each_moment_belongs_to_one_part() -> None:
    parts = split(
        0, 100, waits=[(10, 40)], puts=[(30, 45)], busy=[(40, 80)], sums=[(70, 90)], callbacks=[(0, 5), (95, 100)]
    )
    assert parts == Parts(wait=20, copy=10, compute=30, all_reduce=20, callbacks=10, rest=10)


def test_what_is_hidden_behind_computing_counts_as_computing() -> None:
    parts = split(0, 100, busy=[(0, 90)], waits=[(10, 50)], callbacks=[(60, 100)])
    assert parts == Parts(wait=0, copy=0, compute=90, all_reduce=0, callbacks=10, rest=0)


def test_a_copy_that_nobody_waits_for_is_hidden() -> None:
    assert split(0, 100, puts=[(20, 80)]).copy == 0


@given(st.tuples(intervals, intervals, intervals, intervals, intervals))
def test_the_parts_add_up_and_none_is_negative(lists: tuple[list[tuple[int, int]], ...]) -> None:
    busy, sums, callbacks, waits, puts = lists
    parts = split(20, 90, busy=busy, sums=sums, callbacks=callbacks, waits=waits, puts=puts)
    assert sum(parts) == 70
    assert min(parts) >= 0


@given(intervals, intervals)
def test_intervals_mean_what_sets_of_moments_mean(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    def moments(pairs: list[tuple[int, int]]) -> set[int]:
        return {moment for start, end in pairs for moment in range(start, end)}

    first, second = merged(some), merged(others)
    assert moments(first) == moments(some)
    assert all(end < start for (_, end), (start, _) in pairwise(first))
    assert moments(without(first, second)) == moments(some) - moments(others)
    assert moments(within(first, 10, 50)) == moments(some) & set(range(10, 50))
    assert length(first) == len(moments(some))
