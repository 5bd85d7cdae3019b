"""Planted differences are found, and exact scripts raise no alarm: the table of `tests/check/table.py`, script by script."""

from __future__ import annotations

import pytest

from tests.check.exact import EXACT, Exact
from tests.check.planted import PLANTED, Planted
from tests.check.table import check


@pytest.mark.full
@pytest.mark.parametrize("case", PLANTED, ids=lambda case: f"{case.backend} {case.name}")
def test_a_planted_difference_is_found_where_it_begins(case: Planted) -> None:
    checked = check(case)
    assert checked.found and checked.place, checked.line()
    assert checked.reason, checked.line()


@pytest.mark.full
@pytest.mark.parametrize("case", EXACT, ids=lambda case: f"{case.backend} {case.name}")
def test_an_exact_script_raises_no_alarm(case: Exact) -> None:
    checked = check(case)
    assert checked.verdict["outcome"] == "equal", checked.verdict
    if "--float64" in case.options:
        assert checked.verdict["largest"]["difference"] < 1e-10, checked.verdict
