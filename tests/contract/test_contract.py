"""Any number of devices computes what one device computes: every job of the catalogue, against plain Keras in another process."""

from __future__ import annotations

import pytest

from tests.contract import catalogue
from tests.contract.oracle import Contract
from tests.contract.turns import TURNS, devices_in_turn
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
    if contract.full or name in catalogue.EVERY_NUMBER_OF_DEVICES:
        return (1, 2, 3, 4)
    if (number := devices_in_turn(name, contract.workers.backend)) is None:
        pytest.skip("another backend's turn; run without -m 'not full'")
    return (number,)


def test_every_job_has_its_turn_on_one_backend() -> None:
    named = [name for of_backend in TURNS.values() for names in of_backend.values() for name in names]
    assert sorted(named) == sorted(catalogue.CASES.keys() - catalogue.EVERY_NUMBER_OF_DEVICES)
