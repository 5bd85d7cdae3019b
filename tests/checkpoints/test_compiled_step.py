"""A restart compiles its step anew: values that the first run's step holds as constants, and that have changed, are announced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers

pytestmark = pytest.mark.in_turn

STEPS = 3  # of an epoch
MOMENTUM = "BatchNormalization.momentum has changed"
CHANGES = {  # by a callback at the begin of each epoch
    "a momentum": MOMENTUM,
    "a closure of the loss": "loss.factor has changed",
    "an array in a closure of the loss": "loss.factor has changed",
    "an attribute that is new in the second epoch": "Scales.scale has changed",
}
NO_CHANGES = (
    "a momentum and the step",
    "a momentum, which changes back",
    "an attribute that the code of no layer knows",
    "attributes that differ in each process",
    "a learning rate",
    "a count of the calls that compile a step",
    "an array that is made again",
    "eager steps, then compiled ones",
    "eager steps, then the setting alone",
    "nothing, with an evaluation of a subclassed model",
    "nothing, with a schedule, averages and dropout",
)
_BODIES = "tests.checkpoints.compiled_bodies"  # which imports Keras
_RUNS: Any = SimpleNamespace(__module__=_BODIES, __name__="runs")
_TEXTS_BY_FIT: Any = SimpleNamespace(__module__=_BODIES, __name__="texts_by_fit")
_TEXTS_INSIDE: Any = SimpleNamespace(__module__=_BODIES, __name__="texts_inside")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_only_the_restarts_step_has_is_announced(workers: Workers, tmp_path: Path, change: str) -> None:
    plain, interrupted, said = workers.abreast.run(_RUNS, folder=str(tmp_path), change=change, stops=(STEPS,))
    assert (plain != interrupted) == _is_compiled(workers)
    assert said == [[], _if_compiled(workers, CHANGES[change])]


@pytest.mark.parametrize("change", NO_CHANGES)
def test_nothing_is_announced_where_the_steps_are_equal(workers: Workers, tmp_path: Path, change: str) -> None:
    plain, interrupted, said = workers.abreast.run(_RUNS, folder=str(tmp_path), change=change, stops=(STEPS, 2))
    assert plain == interrupted
    assert said == [[], [], []]


def test_a_second_restart_compares_with_the_first_process(workers: Workers, tmp_path: Path) -> None:
    *_, said = workers.abreast.run(_RUNS, folder=str(tmp_path), change="a momentum", stops=(STEPS, 2))
    assert said == [[], _if_compiled(workers, MOMENTUM), _if_compiled(workers, MOMENTUM)]


def test_a_process_that_compiles_no_step_passes_the_values_on(workers: Workers, tmp_path: Path) -> None:
    """The first process announces the change, too: it has saved checkpoints after that."""
    *_, said = workers.abreast.run(
        _RUNS, folder=str(tmp_path), change="a momentum", stops=(STEPS + 2, None), signal_in=1
    )
    assert said == [_if_compiled(workers, MOMENTUM), [], _if_compiled(workers, MOMENTUM)]


def test_the_step_of_an_earlier_fit_counts(workers: Workers, tmp_path: Path) -> None:
    """The second fit, which goes on with the step of the first one, was interrupted before its first checkpoint."""
    run = workers.abreast.run
    plain, interrupted, said = run(_RUNS, folder=str(tmp_path), change="a momentum", stops=(STEPS,), fits=2)
    assert (plain != interrupted) == _is_compiled(workers)
    assert said == [[], _if_compiled(workers, MOMENTUM)]


def test_a_checkpoint_of_an_earlier_version_goes_on_without_an_announcement(workers: Workers, tmp_path: Path) -> None:
    *_, said = workers.abreast.run(
        _RUNS, folder=str(tmp_path), change="a momentum", stops=(STEPS,), left_out="compiled"
    )
    assert said == [[], []]


def test_a_fit_with_the_step_of_an_earlier_one_computes_no_texts(workers: Workers, tmp_path: Path) -> None:
    first, same_step, new_step = workers.abreast.run(_TEXTS_BY_FIT, folder=str(tmp_path))
    assert same_step == 0
    assert (first > 0) == (new_step > 0) == _is_compiled(workers)


@pytest.mark.parametrize(
    ("value", "inside"), [([1, 2.5, "a"], 0), ((True, None, b"b"), 0), ([[1, 2], 3], 2), ([1, 2j], 2)]
)
def test_the_text_of_a_flat_container_takes_no_texts_of_elements(workers: Workers, value: Any, inside: int) -> None:
    assert workers.abreast.run(_TEXTS_INSIDE, value=value) == inside


def _is_compiled(workers: Workers) -> bool:
    return workers.backend != "torch"


def _if_compiled(workers: Workers, line: str) -> list[str]:
    return [line] * _is_compiled(workers)
