"""Copies between host and GPUs through CUDA's driver library alone: no framework, no toolkit, no compiler.

Not here: the sizes and repetitions of the copies (`gpu_copies.py`). Reference: CUDA Driver API, "Memory Management", "Peer
Context Memory Access".
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abreast.errors import DeviceError

_ALREADY_ENABLED, _NOT_ENABLED = 704, 705
_PINNED_FOR_ALL = 1  # CU_MEMHOSTALLOC_PORTABLE


@dataclass(frozen=True)
class _Gpu:
    """The memory and stream for copies of one GPU. `buffer` is on the GPU; `pinned` and `pageable` are on the host."""

    device: ctypes.c_int
    context: ctypes.c_void_p
    stream: ctypes.c_void_p
    buffer: ctypes.c_uint64
    pinned: ctypes.c_void_p
    pageable: Any

    def host(self, pinned: bool) -> Any:
        return self.pinned if pinned else ctypes.cast(self.pageable, ctypes.c_void_p)


class Cuda:
    """The library, and one context, stream and buffer per GPU, by bus id. A context manager that frees all of them."""

    def __init__(self, bus_ids: list[str], buffer_bytes: int, library: Any = None) -> None:
        self._library = _loaded() if library is None else library
        self._buffer_bytes = buffer_bytes
        self._bus_ids = bus_ids
        self._gpus: list[_Gpu] = []
        self._frees = contextlib.ExitStack()

    def __enter__(self) -> Cuda:
        with self._frees:
            self._call("cuInit", 0)
            self._gpus = [self._opened(bus_id) for bus_id in self._bus_ids]
            self._frees = self._frees.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._frees.close()

    # Each of these begins a copy of the first `size` bytes, and returns a function that waits for it.

    def to_device(self, gpu: int, size: int, pinned: bool) -> Callable[[], None]:
        ours = self._use(gpu)
        self._call("cuMemcpyHtoDAsync_v2", ours.buffer, ours.host(pinned), ctypes.c_size_t(size), ours.stream)
        return lambda: self._wait(gpu)

    def to_host(self, gpu: int, size: int, pinned: bool) -> Callable[[], None]:
        ours = self._use(gpu)
        self._call("cuMemcpyDtoHAsync_v2", ours.host(pinned), ours.buffer, ctypes.c_size_t(size), ours.stream)
        return lambda: self._wait(gpu)

    def between(self, source: int, target: int, size: int) -> Callable[[], None]:
        ours, theirs = self._use(source), self._gpus[target]
        places = (theirs.buffer, theirs.context, ours.buffer, ours.context)
        self._call("cuMemcpyPeerAsync", *places, ctypes.c_size_t(size), ours.stream)
        return lambda: self._wait(source)

    def can_access_peer(self, gpu: int, other: int) -> bool:
        can = ctypes.c_int(0)
        self._call("cuDeviceCanAccessPeer", ctypes.byref(can), self._gpus[gpu].device, self._gpus[other].device)
        return bool(can.value)

    def set_peer_access(self, gpu: int, other: int, on: bool) -> None:
        self._use(gpu)
        context = self._gpus[other].context
        if on:
            self._call("cuCtxEnablePeerAccess", context, 0, allowed=(_ALREADY_ENABLED,))
        else:
            self._call("cuCtxDisablePeerAccess", context, allowed=(_NOT_ENABLED,))

    def _opened(self, bus_id: str) -> _Gpu:
        device, context, stream = ctypes.c_int(0), ctypes.c_void_p(), ctypes.c_void_p()
        buffer, pinned = ctypes.c_uint64(0), ctypes.c_void_p()
        size = ctypes.c_size_t(self._buffer_bytes)
        self._call("cuDeviceGetByPCIBusId", ctypes.byref(device), bus_id.encode())
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._frees.callback(self._call, "cuDevicePrimaryCtxRelease_v2", device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", ctypes.byref(stream), 0)
        self._frees.callback(self._free, context, "cuStreamDestroy_v2", stream)
        self._call("cuMemAlloc_v2", ctypes.byref(buffer), size)
        self._frees.callback(self._free, context, "cuMemFree_v2", buffer)
        self._call("cuMemHostAlloc", ctypes.byref(pinned), size, _PINNED_FOR_ALL)
        self._frees.callback(self._free, context, "cuMemFreeHost", pinned)
        return _Gpu(device, context, stream, buffer, pinned, ctypes.create_string_buffer(self._buffer_bytes))

    def _free(self, context: ctypes.c_void_p, name: str, what: Any) -> None:
        self._call("cuCtxSetCurrent", context)
        self._call(name, what)

    def _use(self, gpu: int) -> _Gpu:
        self._call("cuCtxSetCurrent", self._gpus[gpu].context)
        return self._gpus[gpu]

    def _wait(self, gpu: int) -> None:
        self._call("cuStreamSynchronize", self._use(gpu).stream)

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
