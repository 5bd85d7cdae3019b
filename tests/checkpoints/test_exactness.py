"""Scripts that are interrupted end as those that are not: see `exactness.py` for the whole campaign."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.checkpoints.exact.draw import Draw, draw
from tests.checkpoints.exactness import GOOD, one, run_of
from tests.harness.client import Workers

PLAIN = Draw(
    seed=1,
    backend="",
    source="arrays_shuffled",
    validation="none",
    model="dense",
    callbacks=(),
    script="one_fit",
    every=2,
    stops=((33, "crash"), (20, "signal")),
    devices=(2,),
)
CASES: dict[str, dict[str, Any]] = {
    "what callbacks and their functions have changed, and the rows of a CSVLogger": {
        "callbacks": (
            "csv",
            "function_that_counts",
            "functions",
            "keeps_lists",
            "own_generator",
            "schedule_with_state",
        ),
    },
    "a generator for validation": {"validation": "generator"},
    "counts of steps, and of the step in which the source ends, before an interrupted validation": {
        "source": "grain_data",
        "validation": "dataset",
        "callbacks": ("function_that_counts",),
        "every": 7,
        "stops": ((17, "signal"), (3, "signal")),
    },
    "a generator that two epochs share, and two optimizers": {
        "source": "generator_of_its_own",
        "script": "two_optimizers",
        "validation": "dataset",
    },
    "batch normalization on other devices": {
        "source": "image_records",
        "model": "batch_normalization",
        "devices": (1, 4, 3, 2),
    },
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=pytest.mark.in_turn if number == 0 else pytest.mark.full)
        for number, name in enumerate(CASES)
    ],
)
def test_goes_on_exactly(workers: Workers, case: str) -> None:
    drawn = dataclasses.replace(PLAIN, backend=workers.backend, **CASES[case])
    found = run_of(workers.abreast, drawn)
    assert found["verdict"] == "equal", found
    assert len(found["interruptions"]) >= 2


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_random_scripts_go_on_exactly(workers: Workers) -> None:
    lines = [one(workers.abreast, seed) for seed in range(20)]
    bad = [line for line in lines if line["verdict"] not in GOOD]
    assert not bad


def test_a_draw_is_known_by_its_seed() -> None:
    assert draw(3, "jax") == draw(3, "jax") != draw(3, "torch")
