"""Copies between host and GPUs through CUDA's driver library alone: no framework, no toolkit, no compiler.

Not here: the sizes and repetitions of the copies (`gpu_copies.py`). Reference: CUDA Driver API, "Memory Management", "Peer
Context Memory Access".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from abreast.errors import DeviceError

_ALREADY_ENABLED, _NOT_ENABLED = 704, 705
_PINNED_FOR_ALL = 1  # CU_MEMHOSTALLOC_PORTABLE


class Cuda:
    """The library, and one context, stream and buffer per GPU, by bus id. A context manager that frees all of them."""

    def __init__(self, bus_ids: list[str], buffer_bytes: int, library: Any = None) -> None:
        self._library = _loaded() if library is None else library
        self._devices: list[ctypes.c_int] = []
        self._contexts: list[ctypes.c_void_p] = []
        self._streams: list[ctypes.c_void_p] = []
        self._buffers: list[ctypes.c_uint64] = []
        self._pinned: list[ctypes.c_void_p] = []
        self._pageable: list[Any] = []
        self._buffer_bytes = buffer_bytes
        self._bus_ids = bus_ids

    def __enter__(self) -> Cuda:
        self._call("cuInit", 0)
        try:
            for bus_id in self._bus_ids:
                self._open(bus_id)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for place, device in enumerate(self._devices):
            if place < len(self._contexts):
                self._use(place)
                for pinned in self._pinned[place : place + 1]:
                    self._call("cuMemFreeHost", pinned)
                for buffer in self._buffers[place : place + 1]:
                    self._call("cuMemFree_v2", buffer)
                for stream in self._streams[place : place + 1]:
                    self._call("cuStreamDestroy_v2", stream)
            self._call("cuDevicePrimaryCtxRelease_v2", device)
        self._devices.clear()

    # Each of these begins a copy of the first `size` bytes, and returns a function that waits for it.

    def to_device(self, gpu: int, size: int, pinned: bool) -> Callable[[], None]:
        self._use(gpu)
        host = self._host(gpu, pinned)
        self._call("cuMemcpyHtoDAsync_v2", self._buffers[gpu], host, ctypes.c_size_t(size), self._streams[gpu])
        return lambda: self._wait(gpu)

    def to_host(self, gpu: int, size: int, pinned: bool) -> Callable[[], None]:
        self._use(gpu)
        host = self._host(gpu, pinned)
        self._call("cuMemcpyDtoHAsync_v2", host, self._buffers[gpu], ctypes.c_size_t(size), self._streams[gpu])
        return lambda: self._wait(gpu)

    def between(self, source: int, target: int, size: int) -> Callable[[], None]:
        self._use(source)
        places = (self._buffers[target], self._contexts[target], self._buffers[source], self._contexts[source])
        self._call("cuMemcpyPeerAsync", *places, ctypes.c_size_t(size), self._streams[source])
        return lambda: self._wait(source)

    def can_access_peer(self, gpu: int, other: int) -> bool:
        can = ctypes.c_int(0)
        self._call("cuDeviceCanAccessPeer", ctypes.byref(can), self._devices[gpu], self._devices[other])
        return bool(can.value)

    def set_peer_access(self, gpu: int, other: int, on: bool) -> None:
        self._use(gpu)
        if on:
            self._call("cuCtxEnablePeerAccess", self._contexts[other], 0, allowed=(_ALREADY_ENABLED,))
        else:
            self._call("cuCtxDisablePeerAccess", self._contexts[other], allowed=(_NOT_ENABLED,))

    def _open(self, bus_id: str) -> None:
        device, context, stream = ctypes.c_int(0), ctypes.c_void_p(), ctypes.c_void_p()
        buffer, pinned = ctypes.c_uint64(0), ctypes.c_void_p()
        size = ctypes.c_size_t(self._buffer_bytes)
        self._call("cuDeviceGetByPCIBusId", ctypes.byref(device), bus_id.encode())
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._devices.append(device)
        self._contexts.append(context)
        self._use(len(self._contexts) - 1)
        self._call("cuStreamCreate", ctypes.byref(stream), 0)
        self._streams.append(stream)
        self._call("cuMemAlloc_v2", ctypes.byref(buffer), size)
        self._buffers.append(buffer)
        self._call("cuMemHostAlloc", ctypes.byref(pinned), size, _PINNED_FOR_ALL)
        self._pinned.append(pinned)
        self._pageable.append(ctypes.create_string_buffer(self._buffer_bytes))

    def _host(self, gpu: int, pinned: bool) -> Any:
        return self._pinned[gpu] if pinned else ctypes.cast(self._pageable[gpu], ctypes.c_void_p)

    def _use(self, gpu: int) -> None:
        self._call("cuCtxSetCurrent", self._contexts[gpu])

    def _wait(self, gpu: int) -> None:
        self._use(gpu)
        self._call("cuStreamSynchronize", self._streams[gpu])

    def _call(self, name: str, *arguments: Any, allowed: tuple[int, ...] = ()) -> None:
        code = int(getattr(self._library, name)(*arguments))
        if code and code not in allowed:
            raise DeviceError(
                f"CUDA's driver returned {code} for {name}", "CUDA's documentation of `CUresult` explains it"
            )


def _loaded() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"no CUDA driver: {error}", "install NVIDIA's driver") from error
