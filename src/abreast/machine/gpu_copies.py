"""Bandwidths and latencies of copies between the host and GPUs, and between GPUs. Each copy is timed to its end.

If copies cannot be measured, `notes` in the facts states the reason.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from abreast.device_list import Device
from abreast.errors import DeviceError
from abreast.machine.cuda_driver import Cuda

BUFFER_BYTES = 64 << 20
_SMALL_BYTES = 4
_TIMES = 7  # repetitions, after one more to warm up; the median counts
_SMALL_TIMES = 100
Begin = Callable[[], Callable[[], None]]


def measure(gpus: Sequence[Device], links: list[dict[str, Any]], library: Any = None) -> dict[str, Any]:
    """The rates between host and GPUs, as lists in the order of `gpus`. Rates between two GPUs are added to `links`."""
    if not gpus or any(device.bus_id is None for device in gpus):
        return {}
    try:
        # The driver writes the PCI domain with eight digits, and reads it with four.
        with Cuda([str(device.bus_id)[-12:] for device in gpus], BUFFER_BYTES, library) as cuda:
            facts = _with_host(cuda, len(gpus))
            for first, second in itertools.combinations(range(len(gpus)), 2):
                names = (gpus[first].name, gpus[second].name)
                entry = next(link for link in links if (link["from"], link["to"]) == names)
                entry |= _pair(cuda, first, second)
    except DeviceError as error:
        return {"notes": [f"copies of GPUs were not measured: {error.message}"]}
    return facts


def _with_host(cuda: Cuda, count: int) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name, copy in (("host_to_device", cuda.to_device), ("device_to_host", cuda.to_host)):
        facts[f"{name}_bytes_per_second"] = {
            kind: [_rate([_begin(copy, gpu, BUFFER_BYTES, pinned)]) for gpu in range(count)]
            for kind, pinned in (("pageable", False), ("pinned", True))
        }
        facts[f"{name}_latency_seconds"] = [
            _seconds([_begin(copy, gpu, _SMALL_BYTES, True)], _SMALL_TIMES) for gpu in range(count)
        ]
        if count > 1:  # GPUs may share a switch, or the processor's lanes
            together = [_begin(copy, gpu, BUFFER_BYTES, True) for gpu in range(count)]
            facts[f"{name}_bytes_per_second"]["pinned_all_at_once"] = _rate(together)
    return facts


def _pair(cuda: Cuda, first: int, second: int) -> dict[str, Any]:
    """Rates between two GPUs, with and without peer access. Without it, copies go through the host's memory."""
    facts: dict[str, Any] = {}
    can = cuda.can_access_peer(first, second) and cuda.can_access_peer(second, first)
    for name, on in (("without_peer_access", False), ("with_peer_access", True)):
        if on and not can:
            continue
        for gpu, other in ((first, second), (second, first)):
            if can:
                cuda.set_peer_access(gpu, other, on)
        there, back = (_begin(cuda.between, *pair, BUFFER_BYTES) for pair in ((first, second), (second, first)))
        facts[f"bytes_per_second_{name}"] = _rate([there])
        facts[f"both_ways_bytes_per_second_{name}"] = _rate([there, back])
        facts[f"latency_seconds_{name}"] = _seconds([_begin(cuda.between, first, second, _SMALL_BYTES)], _SMALL_TIMES)
    return facts


def _begin(copy: Callable[..., Callable[[], None]], *arguments: Any) -> Begin:
    return lambda: copy(*arguments)


def _rate(copies: Sequence[Begin]) -> float:
    """Bytes per second of all copies together, when they run at once."""
    return len(copies) * BUFFER_BYTES / _seconds(copies, _TIMES)


def _seconds(copies: Sequence[Begin], times: int) -> float:
    """Median time from the begin of the first copy to the end of the last one."""
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        waits = [begin() for begin in copies]
        for wait in waits:
            wait()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])
