"""The float64 matrix, a part of it here and all of it in `make test-full`: nothing is ever silently different."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.contract import matrix
from tests.contract.oracle import Contract
from tests.harness.client import BACKENDS


@pytest.mark.timeout(900)
def test_no_cell_of_a_part_of_the_matrix_is_silently_different(contract: Contract) -> None:
    _check(contract, every=25, devices=(3,) if contract.workers.backend == "jax" else (4,))


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_no_cell_of_the_matrix_is_silently_different(contract: Contract) -> None:
    _check(contract, every=1, devices=(1, 2, 3, 4))


def test_the_matrix_has_at_least_300_cells() -> None:
    assert len(matrix.settings()) * 4 * len(BACKENDS) >= 300


def _check(contract: Contract, every: int, devices: tuple[int, ...]) -> None:
    cells = list(matrix.cells(contract, matrix.settings(every), devices))
    counts = Counter(cell.verdict for cell in cells)
    print(f"{contract.workers.backend}: {matrix.summary(counts)}")
    wrong = [cell for cell in cells if cell.verdict not in ("equal", "refused")]
    assert not wrong, "\n".join(map(str, wrong))
