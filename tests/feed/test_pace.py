"""Short steps go without threads where that is faster: `Pace` decides, and a change in the middle of an epoch loses no batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers


def body(name: str) -> Any:
    """A function of `bodies.py` by name: pytest itself must not import Keras."""
    return SimpleNamespace(__module__="tests.feed.bodies", __name__=name)


@pytest.mark.parametrize(
    ("threaded_us", "inline_us", "expected"),
    [(320, 220, True), (220, 320, False), (220, 220, True), (12_000, 220, False)],
    ids=["inline is faster", "threads are faster", "equal", "long steps"],
)
def test_the_faster_way_is_chosen_for_short_steps(
    workers: Workers, threaded_us: int, inline_us: int, expected: bool
) -> None:
    found = workers.abreast.run(body("pace_after"), threaded_us=threaded_us, inline_us=inline_us)
    assert found["inline"] is expected
    assert bool(found["tried"]) is (threaded_us < 10_000)


def test_nothing_is_tried_where_it_may_not_be(workers: Workers) -> None:
    found = workers.abreast.run(body("pace_after"), threaded_us=320, inline_us=220, measures=False)
    assert not found["inline"] and not found["tried"]


def test_a_spoiled_measurement_is_repeated_later(workers: Workers) -> None:
    times: dict[str, Any] = {"threaded_us": 320, "inline_us": 220, "spoiled": (0, 60)}
    assert not workers.abreast.run(body("pace_after"), **times, steps=100)["inline"]
    assert workers.abreast.run(body("pace_after"), **times, steps=500)["inline"]


def test_other_work_for_a_part_of_the_measurement_does_not_decide(workers: Workers) -> None:
    times = {"threaded_us": 320, "inline_us": 220, "factor": 3}
    for start in range(0, 64, 4):
        assert workers.abreast.run(body("pace_after"), **times, spoiled=(start, start + 10), steps=80)["inline"], start


def test_a_clear_difference_is_measured_in_few_steps(workers: Workers) -> None:
    """Of 200 steps, few go the slow way: 12 of each measurement, and those that begin an epoch meanwhile."""
    found = workers.abreast.run(body("pace_after"), threaded_us=320, inline_us=110)
    assert found["inline"] and found["tried"] >= 170
    found = workers.abreast.run(body("pace_after"), threaded_us=110, inline_us=320)
    assert not found["inline"] and found["tried"] <= 30


def test_reads_that_become_slow_bring_the_threads_back(workers: Workers) -> None:
    times = {"threaded_us": 320, "inline_us": 220}
    assert workers.abreast.run(body("pace_after"), **times, slow_reads=2)["inline"]
    assert not workers.abreast.run(body("pace_after"), **times, slow_reads=3)["inline"]
    assert workers.abreast.run(body("pace_after"), **times, slow_reads=20, fast_reads=100)["inline"]


@pytest.mark.in_turn
@pytest.mark.parametrize("devices", [1, 3])
def test_a_change_between_any_two_steps_changes_no_result(workers: Workers, devices: int) -> None:
    """And leaves no thread. The changes come at random steps; without them all batches are staged ahead."""
    threaded = workers.abreast.run(body("change_of_threads"), devices=devices, seed=None)
    changing = workers.abreast.run(body("change_of_threads"), devices=devices, seed=devices)
    assert threaded["changes"] == 0 and changing["changes"] > 8
    assert threaded["threads"] == changing["threads"] == []
    assert changing["numbers"] == threaded["numbers"]


def test_pytorch_reads_the_next_batch_while_a_step_waits_for_other_devices(workers: Workers) -> None:
    """On other backends, and with one device, a step does not wait in Python."""
    one, three = (workers.abreast.run(body("early_reads"), devices=devices) for devices in (1, 3))
    assert three["losses"] == pytest.approx(one["losses"], rel=1e-6)
    assert one["steps"] == three["steps"] == 12
    in_time = list(range(8, 12))  # by then, the batches that threads had read are used up
    assert one["finished"][-4:] == in_time
    early = [number - 1 for number in in_time]
    assert three["finished"][-4:] == (early if workers.backend == "torch" else in_time)


def test_an_error_of_an_early_read_comes_after_the_step(workers: Workers) -> None:
    found = workers.abreast.run(body("early_reads"), devices=3, raise_at=10)
    assert found["raised"] == "the disk is gone" and found["steps"] == 10


def test_a_call_of_one_step_starts_no_thread(workers: Workers) -> None:
    """Agents of reinforcement learning fit after each of their moves: a thread would take longer than the step."""
    one, four = workers.abreast.run(body("threads_of_short_calls"))
    assert one == 0 and four == 2


def test_a_call_goes_on_with_what_an_earlier_one_found(workers: Workers) -> None:
    """Its first two batches show whether the source may be read ahead; the second one is read by a thread that looks."""
    first, later, after_slow_reads = workers.abreast.run(body("readers_of_later_calls"))
    assert first == after_slow_reads == ["main", *["reader"] * 5]
    assert later == ["main", "reader", *["main"] * 4]
