"""Keras's own tests pass on several devices where they pass with plain Keras: a few of them here, all in `make test-full`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.keras_own import exceptions, measure, page, runs
from tests.keras_own.runs import EVERYTHING, NUM_DEVICES

FEW = (
    "callbacks/early_stopping_test.py",
    "callbacks/terminate_on_nan_test.py",
    "trainers/trainer_test.py::TestTrainer::test_steps_per_epoch_match_one_epoch_eager",
)


@pytest.mark.timeout(600)
@pytest.mark.in_turn
def test_a_few_of_keras_own_tests_pass_on_several_devices_and_run_steps_there(backend: str, tmp_path: Path) -> None:
    outcomes = runs.run(backend, FEW, tmp_path / "placed.jsonl", placed=NUM_DEVICES)
    assert {one.outcome for one in outcomes.values()} == {"passed"}, outcomes
    assert sum(one.steps > 0 for one in outcomes.values()) >= 5


@pytest.mark.full
@pytest.mark.timeout(600)
def test_every_test_that_runs_steps_fails_where_a_step_does(backend: str, tmp_path: Path) -> None:
    sound = runs.run(backend, FEW, tmp_path / "placed.jsonl", placed=NUM_DEVICES)
    planted = runs.run(backend, FEW, tmp_path / "planted.jsonl", placed=NUM_DEVICES, options=["--planted"])
    assert {test for test, one in planted.items() if one.outcome == "failed"} == {
        test for test, one in sound.items() if one.steps > 0
    }


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_tests_that_pass_with_plain_keras_pass_on_several_devices_or_are_named(backend: str, tmp_path: Path) -> None:
    plain = runs.run(backend, EVERYTHING, tmp_path / "plain.jsonl")
    placed = runs.run(backend, EVERYTHING, tmp_path / "placed.jsonl", placed=NUM_DEVICES)
    assert sum(one.outcome == "passed" for one in plain.values()) >= 600
    unnamed = [one for one in runs.broken(plain, placed) if exceptions.reason(backend, one.test) is None]
    assert not unnamed, "\n".join(map(str, unnamed))


def test_the_page_matches_the_lines() -> None:
    assert page.main(["--check"]) == 0


def test_every_difference_that_was_measured_is_named() -> None:
    lines = [json.loads(line) for line in measure.OUTPUT.read_text().splitlines()]
    assert not [line for line in lines if line["kind"] == "differs" and line["reason"] is None]
