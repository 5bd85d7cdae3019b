"""The time that ranks take to sum a buffer while nothing else runs. The doctor compares it with a step."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

from abreast.keras_private.torch import get_device

_FLOAT_BYTES = 4
_TIMES = 7


def seconds(group: dist.ProcessGroup | None, size_bytes: int) -> float:
    """Median duration of one sum; every rank of the group calls this."""
    values = torch.ones(max(1, size_bytes // _FLOAT_BYTES), device=get_device())
    times = []
    for _ in range(_TIMES + 1):
        dist.barrier(group=group)
        start = time.perf_counter()
        dist.all_reduce(values, group=group)
        values[0].item()  # waits for the GPU
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
