"""Short steps go without threads where that is faster: `Pace` decides, and a change in the middle of an epoch loses no batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from abreast.feed.pace import Pace
from tests.harness.client import Workers

MICROSECOND = 1000
change_of_threads: Any = SimpleNamespace(__module__="tests.feed.bodies", __name__="change_of_threads")


def inline_after(pace: Pace, threaded_us: int, inline_us: int, steps: int = 200) -> bool:
    """What is decided after some steps of these durations, in epochs of 20 steps with a long time between them."""
    now = 0
    for step in range(steps):
        if step % 20 == 0:
            pace.begin()
            now += 10**9
        now += MICROSECOND * (inline_us if pace.inline else threaded_us)
        pace.step(now)
    return pace.inline


@pytest.mark.parametrize(
    ("threaded_us", "inline_us", "expected"), [(320, 220, True), (220, 320, False), (220, 220, False)]
)
def test_the_faster_way_is_chosen(threaded_us: int, inline_us: int, expected: bool) -> None:
    assert inline_after(Pace(measures=True), threaded_us, inline_us) is expected


def test_long_steps_are_never_without_threads() -> None:
    pace, now = Pace(measures=True), 0
    for _ in range(200):
        now += 4000 * MICROSECOND
        pace.step(now)
        assert not pace.inline


def test_nothing_is_tried_where_it_may_not_be() -> None:
    assert inline_after(Pace(measures=False), 320, 220) is False


def test_reads_that_become_slow_bring_the_threads_back() -> None:
    pace = Pace(measures=True)
    assert inline_after(pace, 320, 220)
    for nanoseconds in (5_000_000, 100, 5_000_000, 100):
        pace.has_read(nanoseconds)
        assert pace.inline
    pace.has_read(5_000_000)
    assert not pace.inline
    assert inline_after(pace, 320, 220) is False


@pytest.mark.parametrize("devices", [1, 3])
def test_a_change_between_any_two_steps_changes_no_result(workers: Workers, devices: int) -> None:
    """And leaves no thread. The changes come at random steps; without them all batches are staged ahead."""
    threaded = workers.abreast.run(change_of_threads, devices=devices, seed=None)
    changing = workers.abreast.run(change_of_threads, devices=devices, seed=devices)
    assert threaded["changes"] == 0 and changing["changes"] > 8
    assert threaded["threads"] == changing["threads"] == []
    assert changing["numbers"] == threaded["numbers"]
