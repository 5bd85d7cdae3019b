"""How steps are split, on times that one can add up by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abreast.timeline.intervals import Intervals, disjoint, lengths_without, without
from abreast.timeline.step_parts import PARTS, split
from tests.timeline.moments import Parts, moments

Pairs = list[tuple[int, int]]

times = st.integers(0, 100)
pairs = st.lists(st.tuples(times, times), max_size=5)


def parts(*steps: tuple[int, int], **kinds: Pairs) -> list[Parts]:
    assert Parts._fields == PARTS
    told = {name: array(kind) for name, kind in kinds.items()}
    return [Parts(*step) for step in split(array(list(steps)), **told).tolist()]


def array(some: Pairs) -> Intervals:
    return np.array(some, np.int64).reshape(-1, 2).T


def listed(some: Intervals) -> Pairs:
    return list(zip(*some.tolist(), strict=True))


def test_each_moment_belongs_to_one_part() -> None:
    found = parts(
        (0, 100), waits=[(10, 40)], puts=[(30, 45)], busy=[(40, 80)], sums=[(70, 90)], callbacks=[(0, 5), (95, 100)]
    )
    assert found == [Parts(wait=20, copy=10, compute=30, all_reduce=20, callbacks=10, rest=10)]


def test_time_that_overlaps_with_computing_counts_as_computing() -> None:
    found = parts((0, 100), busy=[(0, 90)], waits=[(10, 50)], callbacks=[(60, 100)])
    assert found == [Parts(wait=0, copy=0, compute=90, all_reduce=0, callbacks=10, rest=0)]


def test_a_copy_without_a_wait_is_hidden() -> None:
    assert parts((0, 100), puts=[(20, 80)])[0].copy == 0


def test_an_interval_over_several_steps_is_divided_among_them() -> None:
    found = parts((0, 10), (10, 30), (50, 60), busy=[(5, 55)])
    assert [step.compute for step in found] == [5, 20, 5]
    assert [step.rest for step in found] == [5, 0, 5]


@given(st.lists(st.integers(0, 100), min_size=2, max_size=6), st.tuples(pairs, pairs, pairs, pairs, pairs))
def test_every_moment_of_every_step_is_split_by_the_rule(bounds: list[int], lists: tuple[Pairs, ...]) -> None:
    bounds = sorted(bounds[: len(bounds) // 2 * 2])
    steps = list(zip(bounds[::2], bounds[1::2], strict=True))
    kinds = dict(zip(("busy", "sums", "callbacks", "waits", "puts"), lists, strict=True))
    busy, sums, callbacks, waits, puts = (moments(some) for some in lists)
    ranked = {"all_reduce": sums, "compute": busy, "callbacks": callbacks, "copy": waits & puts, "wait": waits}
    for step, found in zip(steps, parts(*steps, **kinds), strict=True):
        left = moments([step])
        for name, kind in ranked.items():
            assert getattr(found, name) == len(left & kind)
            left -= kind
        assert found.rest == len(left)


@given(pairs)
def test_disjoint_intervals_cover_the_same_moments_once(some: Pairs) -> None:
    found = disjoint(array(some))
    assert moments(listed(found)) == moments(some)
    assert (found[0] < found[1]).all()
    assert (found[1, :-1] <= found[0, 1:]).all()


@given(pairs, pairs)
def test_holes_are_cut_out_of_their_owners(some: Pairs, holes: Pairs) -> None:
    """Whose the others are, they are not cut out of any."""
    whole, cut = disjoint(array(some)), disjoint(array(holes))
    owners = whole[0].searchsorted(cut[0], "right") - 1
    cut, owners = cut[:, owners >= 0], owners[owners >= 0]
    left = [moments([interval]) for interval in listed(whole)]
    for owner, hole in zip(owners.tolist(), listed(cut), strict=True):
        left[owner] -= moments([hole])
    assert moments(listed(without(whole, cut, owners))) == set().union(*left)
    assert lengths_without(whole, cut, owners).tolist() == [len(each) for each in left]


def test_operations_on_no_intervals_give_no_intervals() -> None:
    empty = array([])
    assert empty.shape == (2, 0)
    assert np.array_equal(disjoint(empty), empty)
    assert parts((0, 10)) == [Parts(0, 0, 0, 0, 0, 10)]
