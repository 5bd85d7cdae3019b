"""The doctor's clock counts steps, not calls of Keras, and measures the time between epochs separately."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Worker

_drive: Any = SimpleNamespace(__module__="tests.doctor.clock_bodies", __name__="drive")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("per_call", "steps"), [(1, 200), (1, 20), (1, 3), (1, 1), (4, 10), (4, 12), (16, 20), (16, 1)]
)
def test_the_clock_measures_the_time_of_a_step(worker: Worker, per_call: int, steps: int, known: bool) -> None:
    if not known and steps % per_call:
        return  # nobody can tell how many steps a last call has
    found = worker.run(_drive, per_call=per_call, steps=steps, wanted=30, known=known)
    assert found["seconds_per_step"] == pytest.approx(0.01)
    assert found["between_epochs"] == pytest.approx([0.5] * len(found["between_epochs"]))
    assert bool(found["between_epochs"]) == (steps < 30)


def test_no_more_steps_than_needed_are_run(worker: Worker) -> None:
    found = worker.run(_drive, per_call=1, steps=200, wanted=30, warmup=5)
    assert found["calls"] == 5 + 30 + 1


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("jax", 2)
    yield worker
    assert not worker.close()
