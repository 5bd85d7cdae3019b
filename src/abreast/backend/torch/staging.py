"""The copy of a shard from host memory to this rank's device.

On a GPU, the copy runs from pinned memory on a stream of its own, beside the step that computes. On the CPU, the
shard stays where it is, except that read-only memory is copied. Keras's loader gives tensors that share their memory with the
source's arrays, and `numpy()` shares it again: a worker's shard is copied once, into the memory that it maps (`shards.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from abreast.arrays import arrays_of, map_arrays
from abreast.keras_private.torch import get_device
from abreast.staging import Leaves, numpy_memory


class StagedShard:
    """A shard whose copy to the device has begun."""

    def __init__(self, data: Any, copied: torch.cuda.Event | None = None) -> None:
        self._data = data
        self._copied = copied

    def ready(self) -> Any:
        """The shard, for use on the present stream. The stream waits for the copy, the host does not."""
        if self._copied is not None:
            stream = torch.cuda.current_stream()
            stream.wait_event(self._copied)
            for leaf in arrays_of(self._data):
                leaf.record_stream(stream)  # or the copying stream, which owns the memory, would reuse it too early
        return self._data

    def wait(self) -> None:
        """Wait until the copy no longer reads the host memory."""
        if self._copied is not None:
            self._copied.synchronize()


def begin_copy(shard: Any, device: str) -> StagedShard:
    """Begin to copy a shard (tensors or NumPy arrays) to `device` (`gpu:0` or `cpu:0`, for example); callable in any thread."""
    if not device.startswith("gpu:"):
        there = get_device()
        return StagedShard(map_arrays(lambda leaf: _own(leaf).to(there), shard))
    target = torch.device("cuda", int(device.removeprefix("gpu:")))
    with torch.cuda.stream(_copying_stream(target)):
        data = map_arrays(lambda leaf: _pinned(leaf).to(target, non_blocking=True), shard)
        copied = torch.cuda.Event()
        copied.record()
    return StagedShard(data, copied)


def pin_slot(memory: Any, before: Any = None) -> None:
    """Let the driver read shared memory directly; if it refuses, shards are copied once more."""
    if not torch.cuda.is_available():
        return
    runtime = torch.cuda.cudart()
    if before is not None:  # otherwise the driver would keep pages that are no longer mapped
        runtime.cudaHostUnregister(_address(before))
    runtime.cudaHostRegister(_address(memory), len(memory), 0)


def _memory(leaf: Any) -> np.ndarray[Any, Any] | None:
    """That of an array, or of a tensor on the CPU; None for a type that NumPy does not know."""
    if not isinstance(leaf, torch.Tensor) or leaf.device.type != "cpu":
        return numpy_memory(leaf)
    try:
        view: np.ndarray[Any, Any] = leaf.detach().numpy()
        return view
    except (TypeError, RuntimeError):
        return None


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf.copy()


LEAVES = Leaves(memory=_memory, copy=_copy)


def _address(memory: Any) -> int:
    return torch.frombuffer(memory, dtype=torch.uint8).data_ptr()


def _own(leaf: Any) -> torch.Tensor:
    """A tensor on the array's memory, or on a copy of read-only memory, because Keras scales weights in place."""
    return _as_tensor(leaf.copy() if _is_read_only(leaf) else leaf)


def _as_tensor(leaf: Any) -> torch.Tensor:
    """A tensor on the array's memory. PyTorch does not know ml_dtypes' bfloat16, so its bits are reinterpreted."""
    if _is_bfloat16(leaf):
        return torch.as_tensor(leaf.view(np.int16)).view(torch.bfloat16)
    return torch.as_tensor(leaf)


def _is_bfloat16(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.name == "bfloat16"


def _pinned(leaf: Any) -> torch.Tensor:
    if _is_read_only(leaf) and _is_bfloat16(leaf):
        return _own(leaf).pin_memory()
    if _is_read_only(leaf):
        tensor = torch.empty(leaf.shape, dtype=torch.as_tensor(leaf[:0].copy()).dtype, pin_memory=True)
        tensor.numpy()[...] = leaf
        return tensor
    tensor = _as_tensor(leaf)
    return tensor if tensor.is_cuda or tensor.is_pinned() else tensor.pin_memory()


def _is_read_only(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and not leaf.flags.writeable


@functools.cache
def _copying_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
