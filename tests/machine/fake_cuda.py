"""A CUDA driver library whose copies take the time that a test plants, on a clock of its own."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import Any

LATENCY_SECONDS = 10e-6


class Clock:
    """Stands for `time` in the module that measures."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class FakeCuda:
    """`rates` are bytes per second: `pageable`, `pinned`, `peer`, `staged`; host copies at once share `root` bytes per second.

    Every call is counted, so that a test sees that all is given back.
    """

    def __init__(self, clock: Clock, rates: dict[str, float], peers: bool = True) -> None:
        self.clock, self.rates, self.peers = clock, rates, peers
        self.counts: dict[str, int] = defaultdict(int)
        self.enabled: set[tuple[int, int]] = set()
        self.current = 0
        self._ends: dict[int, float] = defaultdict(float)
        self._root_end = 0.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.counts[name] += 1
            return int(getattr(self, f"_{name}", lambda *_: 0)(*arguments) or 0)

        return call

    def _cuDeviceGetByPCIBusId(self, device: Any, bus_id: bytes) -> None:  # noqa: N802
        device._obj.value = int(bus_id.decode().split(":")[1], 16)

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: ctypes.c_int) -> None:  # noqa: N802
        context._obj.value = 100 + device.value

    def _cuCtxSetCurrent(self, context: ctypes.c_void_p) -> None:  # noqa: N802
        self.current = (context.value or 0) - 100

    def _cuStreamCreate(self, stream: Any, _: int) -> None:  # noqa: N802
        stream._obj.value = 200 + self.current

    def _cuMemAlloc_v2(self, buffer: Any, size: Any) -> None:  # noqa: N802
        buffer._obj.value = 300 + self.current

    def _cuMemHostAlloc(self, pinned: Any, size: Any, flags: int) -> None:  # noqa: N802
        pinned._obj.value = 400 + self.current

    def _cuMemcpyHtoDAsync_v2(self, buffer: Any, host: Any, size: Any, stream: Any) -> None:  # noqa: N802
        self._host_copy(host, size, stream)

    def _cuMemcpyDtoHAsync_v2(self, host: Any, buffer: Any, size: Any, stream: Any) -> None:  # noqa: N802
        self._host_copy(host, size, stream)

    def _cuMemcpyPeerAsync(self, target: Any, to: Any, source: Any, of: Any, size: Any, stream: Any) -> None:  # noqa: N802
        direct = (of.value - 100, to.value - 100) in self.enabled
        self._copy(stream, size.value / self.rates["peer" if direct else "staged"])

    def _cuDeviceCanAccessPeer(self, can: Any, device: Any, other: Any) -> None:  # noqa: N802
        can._obj.value = int(self.peers)

    def _cuCtxEnablePeerAccess(self, context: Any, flags: int) -> int:  # noqa: N802
        pair = (self.current, context.value - 100)
        was = pair in self.enabled
        self.enabled.add(pair)
        return 704 if was else 0

    def _cuCtxDisablePeerAccess(self, context: Any) -> int:  # noqa: N802
        pair = (self.current, context.value - 100)
        was = pair in self.enabled
        self.enabled.discard(pair)
        return 0 if was else 705

    def _cuStreamSynchronize(self, stream: Any) -> None:  # noqa: N802
        self.clock.now = max(self.clock.now, self._ends[stream.value])

    def _host_copy(self, host: Any, size: Any, stream: Any) -> None:
        pinned = (host.value or 0) // 100 == 4
        self._copy(stream, size.value / self.rates["pinned" if pinned else "pageable"])
        self._root_end = max(self._root_end, self.clock.now) + size.value / self.rates["root"]
        self._ends[stream.value] = max(self._ends[stream.value], self._root_end)

    def _copy(self, stream: Any, seconds: float) -> None:
        self._ends[stream.value] = max(self._ends[stream.value], self.clock.now) + LATENCY_SECONDS + seconds
