"""Writes that torch does not count show, in whichever way code got a tensor's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers

SIZES = (3, 70_001)


@pytest.mark.parametrize("size", SIZES)
def test_a_write_that_torch_does_not_count_shows_in_its_tensor(workers: Workers, size: int) -> None:
    _only_torch(workers)
    found = workers.abreast.run(written, size=size)
    assert found == {name: [1] for name in (*WAYS_AT_ONCE, *WAYS_KEPT)}


def test_counted_writes_and_reads_cost_nothing(workers: Workers) -> None:
    _only_torch(workers)
    assert workers.abreast.run(written_by_none) == {"counted": [], "read": [], "numpy, given back": []}


def _only_torch(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("PyTorch counts the changes of a tensor")


def _fill(target: Any) -> None:
    target[1] = 7.0


def _from_dlpack(tensor: Any) -> Any:
    from torch.utils.dlpack import from_dlpack

    return from_dlpack(tensor.detach())


def _by_pointer(tensor: Any) -> None:
    (ctypes.c_float * 3).from_address(tensor.data_ptr())[1] = 7.0


class _Floats:
    """Writes through a storage, which is one of bytes."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __setitem__(self, index: int, value: float) -> None:
        for offset, byte in enumerate(np.float32(value).tobytes()):
            self._storage[4 * index + offset] = byte


def _by_storage(tensor: Any) -> None:
    tensor.untyped_storage().fill_(3)


def _replace_data(tensor: Any) -> None:
    import torch

    tensor.data = torch.full_like(tensor.detach(), 7.0)


def _swap(tensor: Any) -> None:
    import torch

    other = torch.nn.Parameter(torch.full_like(tensor.detach(), 7.0))
    torch.utils.swap_tensors(tensor, other)


# A write in one go, after the look.
WAYS_AT_ONCE: dict[str, Callable[[Any], None]] = {
    "data": lambda tensor: _fill(tensor.data),
    "numpy": lambda tensor: _fill(tensor.detach().numpy()),
    "asarray": lambda tensor: _fill(np.asarray(tensor.detach())),
    "numpy by force": lambda tensor: _fill(tensor.numpy(force=True)),
    "dlpack": lambda tensor: _fill(_from_dlpack(tensor)),
    "pointer": _by_pointer,
    "storage": _by_storage,
    "typed storage": lambda tensor: tensor.storage().fill_(7.0),
    "other data": _replace_data,
    "swapped": _swap,
}
# What somebody took before the look and writes to after it.
WAYS_KEPT: dict[str, Callable[[Any], Any]] = {
    "kept data": lambda tensor: tensor.data,
    "kept view of data": lambda tensor: tensor.data[:3],
    "kept array": lambda tensor: tensor.detach().numpy(),
    "kept view of array": lambda tensor: tensor.detach().numpy()[:2],
    "kept array of a buffer": lambda tensor: tensor.numpy(),
    "kept tensor of DLPack": lambda tensor: _from_dlpack(tensor),
    "kept storage": lambda tensor: _Floats(tensor.untyped_storage()),
    "kept pointer": lambda tensor: (ctypes.c_float * 3).from_address(tensor.data_ptr()),
    "NumPy's own memory": lambda tensor: tensor._from,
}


def written(size: int) -> dict[str, list[int]]:
    """For each way of writing to the second of three tensors: which of them count as written to."""
    from abreast.backend.torch.memory import Memory, note_requests

    note_requests()
    found = {}
    for name, write in WAYS_AT_ONCE.items():
        tensors = _tensors(size)
        memory, version = Memory(tensors), tensors[1]._version
        write(tensors[1])
        assert tensors[1]._version == version, name
        found[name] = sorted(memory.written(tensors))
    for name, take in WAYS_KEPT.items():
        tensors = _tensors(size, name)
        mine = take(tensors[1])
        for value in (7.0, 8.0):  # the second look comes long after somebody asked
            memory = Memory(tensors)
            mine[1] = value
            found[name] = sorted(memory.written(tensors))
    return found


def written_by_none() -> dict[str, list[int]]:
    import torch

    from abreast.backend.torch.memory import Memory, note_requests

    note_requests()
    found = {}
    tensors = _tensors(70_001)
    tensors[1].detach().numpy()[1] = 7.0
    memory = Memory(tensors)
    found["numpy, given back"] = [*memory._shared]
    with torch.no_grad():
        tensors[1].mul_(2)
        tensors[1].detach().add_(1)
    found["counted"] = sorted(memory.written(tensors))
    float(tensors[1][0]), tensors[1].tolist(), tensors[1].clone(), tensors[1].detach().sum().item()
    found["read"] = sorted(memory.written(tensors))
    return found


def _tensors(size: int, way: str = "") -> list[Any]:
    import torch

    array = np.zeros(size, "float32")
    middle = torch.from_numpy(array) if way.startswith("NumPy") else torch.zeros(size)
    middle = middle if way.endswith("buffer") else torch.nn.Parameter(middle)
    middle._from = array  # type: ignore[attr-defined]
    return [torch.nn.Parameter(torch.zeros(size)), middle, torch.nn.Parameter(torch.zeros(size))]
