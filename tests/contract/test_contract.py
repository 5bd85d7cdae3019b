"""N devices compute what one computes: every job of the catalogue, against plain Keras in another process."""

from __future__ import annotations

import importlib.util

import pytest

from tests.contract import catalogue
from tests.contract.oracle import Contract
from tests.harness.client import BACKENDS

# torch.compile takes minutes; the others need a package that a backend's own requirements do not bring.
SLOW = {("torch", "jit_compile")}
NEEDS = {"tf_data": "tensorflow", "endless_dataset": "tensorflow", "torch_loader": "torch", "grain": "grain"}


@pytest.mark.parametrize("name", catalogue.CASES)
def test_any_number_of_devices_learns_what_one_learns(contract: Contract, name: str) -> None:
    case = catalogue.CASES[name]
    _skip_unless_there_is(case.source)
    if (contract.workers.backend, name) in SLOW and not contract.full:
        pytest.skip("takes minutes; run with -m full")
    if not contract.full and not _in_turn(name, contract.workers.backend):
        pytest.skip("another backend's turn; run without -m 'not full'")
    devices = (1, 2, 3, 4) if name in catalogue.EVERY_NUMBER_OF_DEVICES else ()
    contract.holds(case, *devices, refusal=True)


def _in_turn(name: str, backend: str) -> bool:
    if name in catalogue.ON_TORCH:
        return backend == "torch"
    if name in catalogue.EVERY_NUMBER_OF_DEVICES:
        return True
    # Every other case on one backend: all on all would take as long again as all other tests.
    able = [each for each in BACKENDS if not (each == "jax" and name in catalogue.NOT_ON_JAX)]
    return able[sum(map(ord, name)) % len(able)] == backend


def _skip_unless_there_is(source: str) -> None:
    package = NEEDS.get(source)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
