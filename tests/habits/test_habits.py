"""Habits of users give on several devices the results of plain Keras. Some habits run in turn, all of them with `-m full`."""

from __future__ import annotations

import datetime

import pytest

from tests.habits.catalogue import every, of_the_day
from tests.habits.sweep import DEVICES, cells
from tests.harness.client import Workers

_IN_TURN = of_the_day(datetime.date.today())


def _cases() -> list[object]:
    """Every habit on both numbers of devices; those not in turn are slow tests."""
    full = {name: () if name in _IN_TURN else (pytest.mark.full,) for name in every()}
    return [pytest.param(name, marks=marks) for name, marks in full.items()]


@pytest.mark.parametrize("name", _cases())
def test_habits_of_users_give_the_results_of_plain_keras(
    workers: Workers, name: str, pytestconfig: pytest.Config
) -> None:
    habit = every()[name]
    if workers.backend not in habit.backends:
        pytest.skip(f"plain Keras on {workers.backend} cannot do this")
    if missing := habit.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    in_turn = datetime.date.today().toordinal() % 2
    devices = DEVICES if "not full" not in pytestconfig.option.markexpr else DEVICES[in_turn : in_turn + 1]
    for cell, judged in cells(workers, habit, devices):
        assert cell.as_expected, (
            f"{name} on {cell.devices} devices: {judged.verdict} instead of {habit.expects(workers.backend)}, "
            f"{judged.difference:.1e} {judged.where}\n{judged.details}"
        )
