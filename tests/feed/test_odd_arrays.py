"""Unusual arrays of users' sources: they train as with plain Keras, or an error names them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.harness.client import RemoteError, Workers

# Of `odd_arrays.py`, which pytest itself must not import: Keras would come with it.
TRAINED = (
    *("read only", "columns first", "every second row", "backwards", "one row for all", "NaN"),
    *("float64", "float16", "int64", "int8", "uint8", "bool"),
)
REFUSED = {
    "objects": "an array of Python objects",
    "rows of other lengths": "an array of Python objects",
    "dates": "an array of datetime64[s] values",
    "strings": "an array of strings",
}
_trained_on: Any = SimpleNamespace(__module__="tests.feed.odd_arrays", __name__="trained_on")


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", TRAINED)
def test_an_unusual_array_trains_as_with_plain_keras(workers: Workers, kind: str) -> None:
    plain, ours = (worker.run(_trained_on, kind=kind, devices=devices) for worker, devices in _sides(workers))
    for expected, weight in zip(plain, ours, strict=True):
        np.testing.assert_allclose(weight, expected, atol=1e-6)  # measured 6e-8
    assert np.isnan(ours[0]).any() == (kind == "NaN")


@pytest.mark.parametrize("kind", REFUSED)
def test_arrays_without_numbers_are_refused_with_an_explanation(workers: Workers, kind: str) -> None:
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(_trained_on, kind=kind, devices=2)
    if kind == "strings" and workers.backend == "tensorflow":
        assert "Invalid dtype" in caught.value.message  # Keras's own words: a model of strings would take them
        return
    assert "DataError" in caught.value.kinds
    what, _, hint = caught.value.message.partition("\nhint: ")
    assert REFUSED[kind] in what
    assert "arrays of numbers" in hint


def _sides(workers: Workers) -> list[tuple[Any, int]]:
    return [(workers.plain, 0), (workers.abreast, 2)]
