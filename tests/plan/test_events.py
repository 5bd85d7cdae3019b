"""The discrete-event engine: order, waiting, and that no resource is busy longer than time passes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.plan.events import Engine

TASKS = st.lists(
    st.tuples(st.floats(0, 10), st.sampled_from("abc"), st.lists(st.integers(0, 30), max_size=3)),
    min_size=1,
    max_size=30,
)


def test_a_task_waits_for_those_before_it_and_for_its_resource() -> None:
    engine = Engine()
    first = engine.add(2.0, "core")
    engine.add(3.0, "core")  # ready at once, after the first on the same resource
    engine.add(4.0, "link", (first,))
    outcome = engine.run()
    assert outcome.ends == [2.0, 5.0, 6.0]
    assert outcome.busy == {"core": 5.0, "link": 4.0}


def test_nothing_to_do_takes_no_time() -> None:
    assert Engine().run().seconds == 0.0


@settings(deadline=None)
@given(TASKS)
def test_a_resource_is_never_busy_longer_than_time_passes(tasks: list[tuple[float, str, list[int]]]) -> None:
    engine = Engine()
    for number, (seconds, resource, after) in enumerate(tasks):
        engine.add(seconds, resource, [earlier for earlier in set(after) if earlier < number])
    outcome = engine.run()
    assert all(busy <= outcome.seconds * (1 + 1e-12) for busy in outcome.busy.values())
    assert sum(outcome.busy.values()) == pytest.approx(sum(seconds for seconds, _, _ in tasks))


@settings(deadline=None)
@given(TASKS)
def test_no_task_ends_before_those_that_it_waits_for(tasks: list[tuple[float, str, list[int]]]) -> None:
    engine = Engine()
    waits = []
    for number, (seconds, resource, after) in enumerate(tasks):
        waits.append([earlier for earlier in set(after) if earlier < number])
        engine.add(seconds, resource, waits[-1])
    ends = engine.run().ends
    for number, (seconds, _, _) in enumerate(tasks):
        assert ends[number] >= max([ends[earlier] for earlier in waits[number]], default=0.0) + seconds - 1e-9
