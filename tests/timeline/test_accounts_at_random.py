"""The sums of random runs, against the rule in `moments.py`, for any division into rounds."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.timeline.accounts import Accounts
from abreast.timeline.step_spans import COMPUTE
from abreast.timeline.step_table import STEP
from tests.timeline.moments import Step, moments, steps_by_moments
from tests.timeline.random_runs import Run

randoms = st.randoms(use_true_random=False)


@settings(max_examples=300, deadline=None)
@given(randoms)
def test_a_run_is_the_sum_of_its_moments(random: Random) -> None:
    run = Run(random)
    accounts = in_rounds(run, random)
    expected = steps_by_moments(run.windows, run.spans, run.num_devices)
    assert [numbers(row) for row in accounts.table.rows().tolist()] == [numbers_of(step) for step in expected]
    assert [window.first for window in run.windows] == accounts.table.rows()["step"].tolist()
    found = accounts.table.device_seconds
    assert (1e9 * found).round().tolist() == [[len(times) for times in step.computed] for step in expected]
    computed = {
        (span.track, span.numbers["step"]): set[int]() for span in accounts.newest.spans() if span.name == COMPUTE
    }
    for span in accounts.newest.spans():
        if span.name == COMPUTE:
            computed[span.track, span.numbers["step"]] |= moments([(span.start_ns, span.end_ns)])
    times = {
        (f"cpu:{device}", number): each
        for number, step in enumerate(expected)
        for device, each in enumerate(step.computed)
        if each
    }
    assert computed == times


def in_rounds(run: Run, random: Random) -> Accounts:
    """Some windows at a time, and spans up to their end, or some later."""
    accounts = Accounts(0, tuple(f"cpu:{device}" for device in range(run.num_devices)), keep_steps=100)
    windows, spans = list(run.windows), list(run.spans)
    while windows:
        count = random.randint(1, len(windows))
        closed, windows = windows[:count], windows[count:]
        until = closed[-1].end + random.choice((0, 0, 30))
        accounts.take([span for span in spans if span.start_ns < until])
        spans = [span for span in spans if span.start_ns >= until]
        accounts.enter(closed)
    return accounts


def numbers(row: tuple[float, ...]) -> tuple[int, ...]:
    """All numbers of a step except its epoch, number and begin; times in nanoseconds."""
    told = dict(zip(STEP.names or (), row, strict=True))
    units = {name: 1e9 if STEP[name].kind == "f" else 1 for name in told}
    return tuple(round(told[name] * units[name]) for name in told if name not in ("epoch", "step", "begin"))


def numbers_of(step: Step) -> tuple[int, ...]:
    return (step.batches, step.rows, step.num_bytes, step.wall, *step.parts, step.call, step.read, step.put)
