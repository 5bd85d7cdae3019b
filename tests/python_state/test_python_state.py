"""Whatever a script changes in Python while it trains, every device sees as plain Keras does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.differences import largest_difference
from tests.python_state import bodies


@pytest.fixture
def torch_workers(workers: Workers) -> Workers:
    if workers.backend != "torch":
        pytest.skip("one process drives all devices: nothing is sent")
    return workers


def differing(plain: dict[str, Any], placed: dict[str, Any]) -> dict[str, Any]:
    """The cases whose numbers differ, each with the largest difference, or with both where one is no number."""
    found = {name: _difference(plain[name], placed[name]) for name in plain}
    return {name: gap for name, gap in found.items() if isinstance(gap, str) or gap > 2e-5}  # measured 1e-6


def _difference(one: Any, other: Any) -> Any:
    if isinstance(one, str) or isinstance(other, str):
        return f"{one} | {other}"
    return largest_difference(one, other)


def hold(workers: Workers, names: tuple[str, ...], moment: str, as_script: bool) -> None:
    plain = workers.plain.run(bodies.train, names=names, moment=moment, as_script=as_script)
    placed = workers.abreast.run(bodies.train, names=names, moment=moment, devices=2, as_script=as_script)
    assert differing(plain, placed) == {}


@pytest.mark.in_turn
@pytest.mark.parametrize(("moment", "as_script"), [("batch", False), ("fits", True)])
def test_some_python_state_that_a_script_changes_holds_on_every_device(
    workers: Workers, moment: str, as_script: bool
) -> None:
    hold(workers, bodies.NAMES[:: 6 if workers.backend == "torch" else 16], moment, as_script)


@pytest.mark.full
@pytest.mark.parametrize("as_script", [False, True], ids=["module", "script"])
@pytest.mark.parametrize("moment", bodies.MOMENTS)
def test_python_state_that_a_script_changes_holds_on_every_device(
    workers: Workers, moment: str, as_script: bool
) -> None:
    hold(workers, bodies.NAMES, moment, as_script)


@pytest.mark.full
@pytest.mark.parametrize("moment", bodies.MOMENTS)
def test_each_case_would_notice_an_old_state(torch_workers: Workers, moment: str) -> None:
    changed = torch_workers.plain.run(bodies.train, names=bodies.NAMES, moment=moment)
    unchanged = torch_workers.plain.run(bodies.train, names=bodies.NAMES, moment=moment, changes=False)
    assert set(differing(changed, unchanged)) == set(bodies.NAMES)


def test_an_object_that_cannot_be_sent_is_refused_by_name(torch_workers: Workers) -> None:
    outcome = torch_workers.abreast.run(bodies.fit_with_a_generator, place="loss")
    assert outcome.startswith("ModelError: cannot send model.loss.scale (a generator)")


def test_attributes_that_a_callback_sets_for_itself_are_ignored(torch_workers: Workers) -> None:
    assert torch_workers.abreast.run(bodies.fit_with_a_generator, place="layer") == "trained"


def test_functions_that_a_script_puts_around_fit_are_not_sent(torch_workers: Workers) -> None:
    assert torch_workers.abreast.run(bodies.fit_through_a_patch) == "trained, 1"


def test_changes_by_a_step_itself_are_not_sent(torch_workers: Workers) -> None:
    assert torch_workers.abreast.run(bodies.edits_that_travel) == []
