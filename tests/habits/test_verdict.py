"""How runs of a habit are judged, chosen and shown: nothing here runs one."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.habits.catalogue import every, of_the_day
from tests.habits.page import PAGE, page
from tests.habits.run import Ran
from tests.habits.verdict import holds, judge
from tests.harness.client import BACKENDS

PLAIN = Ran(1.0, {"loss": np.asarray([1.0, 0.5]), "name": "a"}, warnings=["of Keras"])
REFUSED = ["ModelError", "AbreastError", "Exception"]


@pytest.mark.parametrize(
    ("placed", "verdict"),
    [
        (Ran(1.0, {"loss": np.asarray([1.0, 0.500001]), "name": "a"}), "equal"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.5]), "name": "a"}, warnings=["of Keras"]), "equal"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.5]), "name": "a"}, warnings=["of ours"]), "warned"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.6]), "name": "a"}, warnings=["of Keras"]), "different"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.6]), "name": "a"}, warnings=["of ours"]), "announced"),
        (Ran(1.0, {"loss": np.asarray([1.0]), "name": "a"}), "different"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.5]), "name": "b"}), "different"),
        (Ran(1.0, {"loss": np.asarray([1.0, 0.5])}), "different"),
        (Ran(1.0, error=REFUSED), "refused"),
        (Ran(1.0, error=REFUSED, steps=1), "failed"),
        (Ran(1.0, error=["WorkerError", "AbreastError", "Exception"]), "failed"),
        (Ran(1.0, error=["TypeError", "Exception"]), "failed"),
    ],
)
def test_a_placed_run_is_judged_by_its_results_its_warnings_and_its_error(placed: Ran, verdict: str) -> None:
    assert judge(PLAIN, placed, 1e-4).verdict == verdict


def test_a_script_that_fails_with_plain_keras_proves_nothing() -> None:
    assert judge(Ran(1.0, error=["ValueError"]), PLAIN, 1e-4).verdict == "broken"


def test_an_expected_warning_must_come_even_where_results_are_equal() -> None:
    warning = "it draws other numbers"
    silent, warned = judge(PLAIN, PLAIN, 1e-4), judge(PLAIN, replace(PLAIN, warnings=[warning]), 1e-4)
    assert holds(silent, "equal", "", []) and holds(warned, "announced", "draws", [warning])
    failed = "the check whether Own relates rows failed on 15 rows"
    assert not holds(warned, "announced", "draws", [warning, failed]) and not holds(warned, "equal", "", [failed])
    assert not holds(warned, "announced", "else", [warning]) and not holds(silent, "announced", "draws", [])


def test_every_habit_has_a_title_and_its_turn() -> None:
    habits = every().values()
    assert all(habit.title.endswith(".") for habit in habits)
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(number) for number in range(len(habits))]
    assert set().union(*map(of_the_day, days)) == set(every())
    assert not [habit.name for habit in habits if (habit.expected.keys() | set(habit.without)) - set(BACKENDS)]


def test_the_page_shows_the_newest_line_of_each_cell(tmp_path: Path) -> None:
    name = next(iter(every()))
    run = {"kind": "run", "date": "today", "commit": "abc", "versions": {"keras": "3"}}
    cell: dict[str, Any] = {"kind": "cell", "habit": name, "backend": "jax", "devices": 2, "verdict": "different"}
    cell |= {"expected": "equal", "as_expected": False, "difference": 0.5, "where": "loss"}
    cell |= {"plain_seconds": 1.0, "seconds": 3.0}
    lines = [run, cell, cell | {"verdict": "equal", "difference": 0.0}]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    assert f"| `{name}` | jax | 2 | different | 5e-01: loss |" in page(path)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "| equal, slow (3.0 x) |" in page(path) and "5e-01" not in page(path)


def test_the_page_in_the_documentation_matches_the_lines() -> None:
    assert PAGE.read_text() == page()
