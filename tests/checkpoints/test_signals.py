"""A few signals at random moments of a real training, on each backend. `python -m tests.checkpoints.signals` sends many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.checkpoints.signals import LIGHT, campaign, table


@pytest.mark.in_turn
def test_a_signal_at_any_moment_of_a_light_script_ends_with_75_and_it_goes_on(tmp_path: Path) -> None:
    check(LIGHT, 4, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_signal_at_any_moment_ends_with_75_and_the_training_goes_on_to_the_same_end(
    backend: str, tmp_path: Path
) -> None:
    check(backend, 5, tmp_path)


def check(backend: str, count: int, place: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    draws = campaign(backend, count, seed, place)
    assert [draw for draw in draws if draw.problems] == [], f"seed {seed}\n{table(draws)}"
