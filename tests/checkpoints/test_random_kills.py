"""A few kills at random moments of a job under `--max-restarts`. `python -m tests.checkpoints.random_kills` sends many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.checkpoints.random_kills import campaign
from tests.checkpoints.signals import LIGHT


@pytest.mark.in_turn
def test_a_light_script_that_is_killed_at_any_moment_ends_by_itself_as_an_undisturbed_one(tmp_path: Path) -> None:
    check(LIGHT, 3, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_training_that_is_killed_at_any_moment_ends_by_itself_as_an_undisturbed_one(
    backend: str, tmp_path: Path
) -> None:
    check(backend, 5, tmp_path)


def check(backend: str, count: int, place: Path) -> None:
    jobs = campaign(backend, count, random.SystemRandom().randrange(10**6), place)
    assert [each for each in jobs if each.problems] == []
