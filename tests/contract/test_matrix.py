"""The float64 matrix, a part of it here and all of it in `make test-full`: every piece is in it, and nothing differs."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.contract import catalogue, matrix
from tests.contract.oracle import Contract
from tests.harness.client import Workers

# Models and optimizers for other tests: `test_meta.py`, and jobs in half precision.
ELSEWHERE = {"model": {"running_mean"}, "optimizer": {"loss_scale_overflow"}}


@pytest.mark.in_turn
@pytest.mark.timeout(900)
def test_each_cell_of_a_part_of_the_matrix_is_equal_to_plain_keras(contract: Contract) -> None:
    _check(contract, every=25, devices=(3,) if contract.workers.backend == "jax" else (4,))


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_each_cell_of_the_matrix_is_equal_to_plain_keras(contract: Contract) -> None:
    _check(contract, every=1, devices=(1, 2, 3, 4))


def _check(contract: Contract, every: int, devices: tuple[int, ...]) -> None:
    """Equal, and refused where plain Keras refuses."""
    backend, settings = contract.workers.backend, matrix.settings(every)
    refused = {name for name, backends in catalogue.REFUSED_BY_KERAS.items() if backend in backends}
    cells = list(matrix.cells(contract, settings, devices))
    print(f"{backend}: {matrix.summary(Counter(cell.verdict for cell in cells))}")
    wrong = [cell for cell in cells if cell.verdict != ("refused" if cell.setting in refused else "equal")]
    assert not wrong, "\n".join(map(str, wrong))
    assert [(cell.setting, cell.devices) for cell in cells] == list(itertools.product(settings, devices))


def test_every_piece_that_a_job_may_name_is_in_the_matrix(workers: Workers) -> None:
    cases = list(matrix.settings().values())
    assert len(set(cases)) == len(cases)
    used: dict[str, set[str]] = {
        "model": {case.model for case in cases},
        "loss": {case.loss for case in cases},
        "optimizer": {case.optimizer for case in cases},
        "metric": {name for case in cases for name in (*case.metrics, *case.weighted_metrics)},
        "callback": {name for case in cases for name in case.callbacks},
        "source": {case.source for case in cases},
        "script": {case.script for case in cases},
    }
    pieces = workers.plain.run(pieces_of_jobs)
    assert {kind: names | ELSEWHERE.get(kind, set()) for kind, names in used.items()} == pieces


def pieces_of_jobs() -> dict[str, set[str]]:
    """In a worker."""
    from tests.contract import models, own_models, pieces, scripts, sources

    return {
        "model": models.MODELS.keys() | own_models.MODELS.keys(),
        "loss": set(pieces.LOSSES),
        "optimizer": set(pieces.OPTIMIZERS),
        "metric": set(pieces.METRICS),
        "callback": set(pieces.CALLBACKS),
        "source": set(sources.SOURCES),
        "script": set(scripts.SCRIPTS),
    }
