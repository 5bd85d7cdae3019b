"""The contract tests notice faults: each way to break abreast makes them fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.contract import sabotage
from tests.contract.cases import Case, run
from tests.contract.compare import TOLERANCES, compare
from tests.contract.test_placement import one_step_by_hand
from tests.harness.client import Workers

CASE = Case(script="train", model="conv_norm", rows=10, batch_size=4)  # the last batch has 2 rows


@pytest.mark.in_turn
@pytest.mark.parametrize("model", ["conv_norm", "wide"])
def test_the_contract_tests_notice_a_missing_all_reduce(workers: Workers, model: str) -> None:
    case = replace(CASE, model=model)
    plain = workers.plain.run(run, case=case)
    assert compare(plain, workers.abreast.run(run, case=case, devices=4), TOLERANCES["float32"]).verdict == "equal"
    broken = compare(
        plain, workers.abreast.run(sabotage.without_all_reduce, case=case, devices=4), TOLERANCES["float32"]
    )
    assert broken.verdict == "different" and broken.difference > 1e-2, broken


@pytest.mark.in_turn
def test_the_contract_tests_notice_rows_that_should_not_count(workers: Workers) -> None:
    plain = workers.plain.run(run, case=CASE)
    broken = compare(
        plain, workers.abreast.run(sabotage.counting_stand_ins, case=CASE, devices=4), TOLERANCES["float32"]
    )
    assert broken.verdict == "different" and broken.difference > 1e-2, broken
    assert compare(plain, workers.abreast.run(run, case=CASE, devices=4), TOLERANCES["float32"]).verdict == "equal"


# Each exchange that the promise rests on: the backends that make it themselves, and a job that needs it. On JAX, XLA makes all.
_EVEN = Case(script="train", model="conv_norm", rows=8, batch_size=4, shuffle=False)
_OF_REPLICAS = ("tensorflow", "torch")
EXCHANGES = {
    "moments of BatchNormalization": (_OF_REPLICAS, _EVEN),
    "divisor of weighted means": (
        _OF_REPLICAS,
        replace(_EVEN, model="dense", sample_weight="random", reduction="mean_with_sample_weight"),
    ),
    "sums of metrics": (_OF_REPLICAS, replace(_EVEN, model="dense", metrics=("accuracy",), script="fit")),
    "averages of states": (_OF_REPLICAS, replace(_EVEN, model="running_mean")),
    "all-reduces of XLA": (("jax",), _EVEN),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", EXCHANGES)
def test_the_contract_tests_notice_each_exchange_that_is_missing(workers: Workers, name: str) -> None:
    backends, case = EXCHANGES[name]
    if workers.backend not in backends:
        pytest.skip(f"{workers.backend} does not make this exchange itself")
    plain = workers.plain.run(run, case=case)
    assert compare(plain, workers.abreast.run(run, case=case, devices=2), TOLERANCES["float32"]).verdict == "equal"
    cut = workers.abreast.run(sabotage.cut_exchange, name=name, case=case, devices=2)
    broken = compare(plain, cut, TOLERANCES["float32"])
    assert broken.verdict == "different" and broken.difference > 1e-3, broken


def test_the_test_of_local_normalization_notices_global_statistics(workers: Workers) -> None:
    if workers.backend != "jax":
        pytest.skip("its replicas see their own rows only")
    broken = workers.abreast.run(sabotage.global_instead_of_local, devices=2, rows=8)
    expected = one_step_by_hand(broken, 2)
    assert any(not np.allclose(broken["after"][name], value, rtol=1e-4) for name, value in expected.items())
