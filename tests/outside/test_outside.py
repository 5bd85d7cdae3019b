"""Any use of a model outside of `fit` works on several devices as with plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.harness.client import RemoteError, Workers
from tests.outside import remote

MOMENTS = ("before", "between", "callback")
TOLERANCE = 2e-5


@pytest.mark.in_turn
def test_outside_of_fit_a_model_is_that_of_plain_keras(workers: Workers) -> None:
    assert _differences(workers, "between", "adam", devices=2) == []


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("optimizer", ["adam", "accumulating"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_on_any_number_of_devices(workers: Workers, moment: str, optimizer: str, devices: int) -> None:
    assert _differences(workers, moment, optimizer, devices) == []


def _differences(workers: Workers, moment: str, optimizer: str, devices: int) -> list[str]:
    found = []
    names = workers.plain.run(remote.names)
    assert names
    for name in names:
        job = {"name": name, "moment": moment, "optimizer": optimizer}
        workers.plain.begin(remote.numbers, **job, devices=0)
        placed = _result(partial(workers.abreast.run, remote.numbers, **job, devices=devices))
        plain = _result(workers.plain.result)
        if (far := _distance(plain, placed)) > TOLERANCE:
            found.append(f"{name}: {far:.1e} {[each for each in (plain, placed) if len(each) == 1]}"[:300])
    return found


def _result(run: Callable[[], list[Any]]) -> list[Any]:
    """Numbers, or the error that plain Keras must raise, too."""
    try:
        return run()
    except RemoteError as error:
        return [error.kinds[0]]


def _distance(plain: list[Any], placed: list[Any]) -> float:
    if len(plain) != len(placed):
        return float("inf")
    return max(_far(a, b) for a, b in zip(plain, placed, strict=True))


def _far(a: Any, b: Any) -> float:
    if isinstance(a, str) or isinstance(b, str):
        return 0.0 if a == b else float("inf")
    if a.shape != b.shape:
        return float("inf")
    far = float(np.max(np.abs(a.astype("float64") - b), initial=0.0)) / max(1.0, float(np.max(np.abs(a), initial=0.0)))
    return far if np.isfinite(far) else float("inf")  # NaN is above no tolerance
