"""Keras's published examples train placed as they train plainly. `KERAS_IO` names a folder that holds them (`measure.py`)."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tests.keras_examples import catalogue, made_up, measure, runs
from tests.keras_examples.catalogue import EXAMPLES


@pytest.mark.full
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_trains_on_several_devices_as_on_one(example: catalogue.Example, backend: str) -> None:
    if "KERAS_IO" not in os.environ:
        pytest.skip("KERAS_IO names no clone of https://github.com/keras-team/keras-io")
    if backend not in example.backends:
        pytest.skip(f"{example.name} is not for {backend}")
    script = catalogue.find(Path(os.environ["KERAS_IO"]), example.name)
    if script is None:
        pytest.skip(f"{os.environ['KERAS_IO']} has no {example.name}")
    verdict = runs.run(script, backend)
    if verdict.verdict in ("not run", "not repeatable"):
        pytest.skip(f"{verdict.verdict} with plain Keras: {verdict.where}")
    known = (example.name, backend) in catalogue.REASONS
    assert known or verdict.verdict in ("equal", "equal in float64", "announced", "refused"), verdict


@pytest.mark.parametrize("other", [math.nan, math.inf, 1.1])
def test_another_number_or_none_on_one_side_is_a_difference(other: float) -> None:
    for one, second in ((1.0, other), (other, 1.0)):
        assert verdict_of([1.0, one], [1.0, second]) == "different"
    assert verdict_of([1.0, other], [1.0, other]) == "equal"


def test_only_a_warning_that_plain_keras_does_not_give_announces_a_difference() -> None:
    ours, keras_own = "UserWarning: rows are cut (play.py)", "UserWarning: `shuffle=True` is ignored (play.py)"
    at_keras_line = keras_own.replace("play.py", "site-packages/keras/fit.py")
    assert verdict_of([1.0], [2.0], [], [ours]) == "announced"
    assert verdict_of([1.0], [2.0], [keras_own], [keras_own]) == "different"
    assert verdict_of([1.0], [2.0], [at_keras_line], [keras_own, ours]) == "announced"
    assert verdict_of([1.0], [2.0], [at_keras_line], [keras_own]) == "different"


def verdict_of(plain: list[float], placed: list[float], *warnings: list[str]) -> str:
    """Of the same call with these values, and these warnings, on each side."""
    one, other = (
        {"error": None, "draws": [], "warnings": said, "calls": [{"call": "fit", "values": values}]}
        for values, said in zip((plain, placed), warnings or ([], []), strict=True)
    )
    return runs._verdict(one, other, 1e-3).verdict


def test_every_difference_that_was_measured_has_a_reason() -> None:
    assert not measure.unexplained(measure.read())


def test_made_up_pictures_have_the_shape_and_the_classes_of_the_real_ones() -> None:
    (x, y), (x_test, _) = made_up.images(32, 3, 10)()
    assert x.shape[1:] == x_test.shape[1:] == (32, 32, 3)
    assert set(y[:, 0]) == set(range(10))
