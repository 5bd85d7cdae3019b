"""Processes on emulated hosts compute what one process computes: settings of the contract's matrix, on every shape."""

from __future__ import annotations

import pytest

from benchmarks.slow_links import NotPermitted
from tests.contract.matrix import settings
from tests.harness.client import BACKENDS
from tests.harness.installed import skip_unless_installed
from tests.launched.matrix import SHAPES, cells, results_of_plain_keras
from tests.launched.ranks import Shape


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_cell_is_silently_different(backend: str) -> None:
    skip_unless_installed(backend)
    named = settings(every=23)
    plain = results_of_plain_keras(backend, named)
    try:
        found = [cell for shape in SHAPES for cell in cells(backend, Shape.of(shape), named, plain)]
    except NotPermitted as error:
        pytest.skip(error.args[0])
    assert {cell.verdict for cell in found} <= {"equal", "refused"}, found
    assert sum(cell.verdict == "equal" for cell in found) >= 0.8 * len(found), found
