"""The contract tests notice what they are there for: each way to break abreast makes them fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract import sabotage
from tests.contract.cases import Case, run
from tests.contract.compare import TOLERANCES, compare
from tests.harness.client import Workers

CASE = Case(script="train", model="conv_norm", rows=10, batch_size=4)  # the last batch has 2 rows


@pytest.mark.parametrize("model", ["conv_norm", "wide"])
def test_the_contract_tests_notice_a_missing_all_reduce(workers: Workers, model: str) -> None:
    case = replace(CASE, model=model)
    plain = workers.plain.run(run, case=case)
    assert compare(plain, workers.abreast.run(run, case=case, devices=4), TOLERANCES["float32"]).verdict == "equal"
    broken = compare(
        plain, workers.abreast.run(sabotage.without_all_reduce, case=case, devices=4), TOLERANCES["float32"]
    )
    assert broken.verdict == "different" and broken.difference > 1e-2, broken


def test_the_contract_tests_notice_rows_that_should_not_count(workers: Workers) -> None:
    plain = workers.plain.run(run, case=CASE)
    broken = compare(
        plain, workers.abreast.run(sabotage.counting_stand_ins, case=CASE, devices=4), TOLERANCES["float32"]
    )
    assert broken.verdict == "different" and broken.difference > 1e-2, broken
    assert compare(plain, workers.abreast.run(run, case=CASE, devices=4), TOLERANCES["float32"]).verdict == "equal"
