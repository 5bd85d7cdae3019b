"""The harness itself: the baseline is plain Keras, equal jobs compare equal, other jobs do not, lost workers come back."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.contract import sabotage
from tests.contract.cases import Case, run
from tests.contract.compare import TOLERANCES, compare
from tests.harness.client import RemoteError, Worker, WorkerLost, Workers
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed

CASE = Case(metrics=("accuracy",), model="conv_norm", epochs=1)


@pytest.mark.in_turn
def test_plain_keras_twice_gives_the_same(workers: Workers) -> None:
    first, second = (workers.plain.run(run, case=CASE) for _ in range(2))
    assert compare(first, second, TOLERANCES["float32"]).difference == 0.0
    assert {"history/loss", "evaluate/accuracy", "predict/0", "batch logs/loss", "weights/0"} <= first.keys()


@pytest.mark.in_turn
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_the_precision_of_one_test_does_not_reach_the_next(workers: Workers, policy: str) -> None:
    workers.abreast.run(run, case=Case(policy=policy, epochs=1), devices=2)
    assert workers.abreast.run(precision_of_this_process) == ("float32", "float32")


def precision_of_this_process() -> tuple[str, str]:
    import keras

    return keras.config.floatx(), keras.config.dtype_policy().name


@pytest.mark.in_turn
def test_one_row_fewer_compares_as_different(workers: Workers) -> None:
    first, second = workers.plain.run(run, case=CASE), workers.plain.run(sabotage.run_with_other_data, case=CASE)
    del first["predict/0"], second["predict/0"]  # whose shapes give it away
    comparison = compare(first, second, TOLERANCES["float32"])
    assert comparison.verdict == "different" and comparison.difference > 1e-3


def test_the_baseline_does_not_import_abreast(workers: Workers) -> None:
    workers.plain.run(run, case=CASE)
    assert "abreast" not in workers.plain.run(sabotage.loaded_modules)
    assert "keras" in workers.plain.run(sabotage.loaded_modules)


def test_pytest_itself_loads_no_framework() -> None:
    assert not {"jax", "keras", "tensorflow", "torch"} & set(sys.modules)


def test_a_worker_that_dies_or_hangs_fails_one_call_and_comes_back() -> None:
    worker = Worker("jax", 0)  # loads no framework before a body asks for it
    with pytest.raises(WorkerLost, match="exit code 3"):
        worker.run(sabotage.exit_now)
    with pytest.raises(WorkerLost, match="no answer in 1 s"):
        worker.run(sabotage.sleep, seconds=60, timeout_seconds=1)
    with pytest.raises(RemoteError, match="unexpected keyword"):
        worker.run(sabotage.sleep, minutes=60)
    assert worker.run(sabotage.loaded_modules)
    assert worker.close() == []


def test_the_largest_difference_counts_what_is_no_number_and_needs_equal_shapes() -> None:
    assert largest_difference({"a": [1.0, [2.0, 3.0]]}, {"a": [1.0, [2.0, 3.5]]}) == 0.5
    assert largest_difference([np.zeros(2), np.array([1.0, np.nan])], [np.zeros(2), np.array([1.0, 2.0])]) == np.inf
    for some, others in (([1.0], [1.0, 2.0]), (np.zeros(3), np.zeros((3, 1))), ({"a": 1.0}, {"b": 1.0}), ([], [])):
        with pytest.raises((AssertionError, ValueError)):
            largest_difference(some, others)


@pytest.mark.parametrize(("required", "outcome"), [("jax", "Skipped"), ("jax,no_such_framework", "Failed")])
def test_a_missing_framework_skips_its_tests_unless_it_is_required(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: str
) -> None:
    monkeypatch.setenv("ABREAST_REQUIRE_BACKENDS", required)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="no_such_framework is not") as caught:
        skip_unless_installed("no_such_framework")
    assert caught.typename == outcome
