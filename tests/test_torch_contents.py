"""Writes that torch does not count show in the content of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers

LARGE = 70_001
WRITES = ("one element", "sign", "order", "nan", "nothing")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("size", [3, LARGE])
def test_a_write_through_data_shows_in_its_tensor(workers: Workers, dtype: str, size: int) -> None:
    if workers.backend != "torch":
        pytest.skip("PyTorch counts the changes of a tensor")
    found = workers.abreast.run(differing, dtype=dtype, size=size)
    wide = dtype.startswith(("float", "bfloat"))
    assert found == {name: [] if name == "nothing" or (name == "nan" and not wide) else [1] for name in WRITES}


@pytest.mark.parametrize(
    ("dtype", "others", "values"),
    [
        ("float32", float("-inf"), (0.0, float("-inf"))),
        ("float32", -3.4e38, (0.0, 1.0)),
        ("float16", float("-inf"), (0.0, 1.0)),
        ("int64", 30_000, (1, 2)),
        ("int64", 2**60, (1, 2)),
        ("complex64", 1j, (1j, 2j)),
    ],
)
def test_a_write_shows_beside_large_numbers(
    workers: Workers, dtype: str, others: complex, values: tuple[complex, complex]
) -> None:
    if workers.backend != "torch":
        pytest.skip("PyTorch counts the changes of a tensor")
    assert workers.abreast.run(differs_beside, dtype=dtype, others=others, values=values) == [0]


def differs_beside(dtype: str, others: complex, values: tuple[complex, complex]) -> list[int]:
    """The noticed changes of a large tensor, full of other numbers, one element of which gets another value."""
    import torch

    from abreast.backend.torch.contents import Contents

    tensor = torch.full((LARGE,), others, dtype=getattr(torch, dtype))
    tensor[5] = torch.tensor(values[0])
    seen = Contents([tensor])
    tensor.data[5] = torch.tensor(values[1])
    return seen.differing([tensor])


def differing(dtype: str, size: int) -> dict[str, list[int]]:
    """The noticed changes of three tensors, the second of which is written to, by the kind of write."""
    import torch

    from abreast.backend.torch.contents import Contents, digest

    random = np.random.default_rng(0)
    found = {}
    for name in WRITES:
        tensors = [torch.from_numpy(random.normal(size=size) * 9).to(getattr(torch, dtype)) for _ in range(3)]
        seen, seen_digest, version = Contents(tensors), digest(tensors[1]), tensors[1]._version
        _write(name, tensors[1].data)
        assert tensors[1]._version == version
        found[name] = seen.differing(tensors)
        assert (digest(tensors[1]) != seen_digest) == bool(found[name])
    return found


def _write(name: str, data: Any) -> None:
    import torch

    if name == "one element":
        data[1] = data[1] == 0 if data.dtype is torch.bool else data[1] + 3
    elif name == "sign":
        data.copy_(~data if data.dtype is torch.bool else -data)
    elif name == "order":
        data[0] = not data[1] if data.dtype is torch.bool else data[1] + 2
        data.copy_(data.flip(0))
    elif name == "nan" and data.is_floating_point():
        data[0] = float("nan")
