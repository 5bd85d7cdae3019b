"""A mutated file is read, or refused with one error: in bounded time and memory, whoever made it."""

from __future__ import annotations

import random

import pytest

from tests.mutations import campaign
from tests.mutations.mutate import mutated_bytes, mutated_json

_QUICK = ("tar", "records", "bench lines", "bench predictions")


def test_a_seed_repeats_a_mutation() -> None:
    value = {"a": [1, {"b": "c"}], "d": 2.0}
    for seed in range(50):
        assert mutated_json(value, random.Random(seed)) == mutated_json(value, random.Random(seed))
        assert mutated_bytes(b"some bytes", random.Random(seed)) == mutated_bytes(b"some bytes", random.Random(seed))
    assert value == {"a": [1, {"b": "c"}], "d": 2.0}


@pytest.mark.parametrize(
    ("reader", "count"),
    [
        *((name, 40) for name in _QUICK),
        *(pytest.param(name, 1000 if name != "parquet" else 100, marks=pytest.mark.full) for name in campaign.NAMES),
    ],
)
def test_a_mutated_input_is_read_or_is_one_error(reader: str, count: int) -> None:
    found = campaign.run(reader, 0, count, seconds=200)
    assert found["failures"] == []
    assert found["read"] > 0 and found["refused"] > 0
    assert found["slowest_seconds"] < 10 and found["peak_mib"] < 1024


@pytest.mark.parametrize(
    ("reader", "seed"),
    [("bench lines", 1100525), ("bench lines", 1201258), ("plan machine", 1001860), ("plan measured", 1002442)],
)
def test_inputs_found_by_a_million_mutations_stay_fixed(reader: str, seed: int) -> None:
    assert campaign.run(reader, seed, 1)["failures"] == []
