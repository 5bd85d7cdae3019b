"""Any number of devices computes what one device computes: every job of the catalogue, against plain Keras in another process."""

from __future__ import annotations

from itertools import product

import pytest

from tests.contract import catalogue
from tests.contract.oracle import Contract
from tests.contract.turns import JOBS, NUMBERS, devices_in_turn
from tests.harness.client import BACKENDS
from tests.harness.in_turn import turn
from tests.harness.installed import skip_unless_installed

# torch.compile takes minutes; the others need a package that a backend's own requirements do not bring.
SLOW = {("torch", "jit_compile")}
NEEDS = {"tf_data": "tensorflow", "endless_dataset": "tensorflow", "torch_loader": "torch", "grain": "grain"}


@pytest.mark.parametrize("name", catalogue.CASES)
def test_any_number_of_devices_learns_what_one_learns(contract: Contract, name: str) -> None:
    case = catalogue.CASES[name]
    if case.source in NEEDS:
        skip_unless_installed(NEEDS[case.source])
    if (contract.workers.backend, name) in SLOW and not contract.full:
        pytest.skip("takes minutes; run with -m full")
    refused = contract.workers.backend in catalogue.REFUSED_BY_KERAS.get(name, ())
    contract.holds(case, *_devices(name, contract), refusal=refused)


def _devices(name: str, contract: Contract) -> tuple[int, ...]:
    """All numbers of devices, or one of them in turn: all jobs on all backends would take as long as all other tests."""
    present = turn()
    if contract.full or present is None or name in catalogue.EVERY_NUMBER_OF_DEVICES:
        return (1, *NUMBERS)
    if not (numbers := devices_in_turn(name, contract.workers.backend, present)):
        pytest.skip("another commit's turn; ABREAST_TURN=all runs all")
    return numbers


def test_every_job_runs_on_every_number_of_devices_and_a_third_of_them_in_each_commit() -> None:
    runs = [
        [
            (name, backend, *devices)
            for name in JOBS
            for backend in BACKENDS
            if (devices := devices_in_turn(name, backend, turn))
        ]
        for turn in range(7, 34)
    ]
    assert {run for of_turn in runs for run in of_turn} == set(product(JOBS, BACKENDS, NUMBERS))
    assert {len(of_turn) for of_turn in runs} <= {len(JOBS) // 3, len(JOBS) // 3 + 1}
