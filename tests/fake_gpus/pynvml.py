"""NVIDIA's driver library, as far as a list of devices asks it: two cards. Found before the real one on `PYTHONPATH`."""

from __future__ import annotations

from types import SimpleNamespace


class NVMLError(Exception):
    pass


def nvmlInit() -> None:  # noqa: N802
    pass


def nvmlShutdown() -> None:  # noqa: N802
    pass


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetPciInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(busId=f"00000000:0{handle}:00.0")


def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
    return f"GPU-0000000{handle}"


def nvmlDeviceGetName(handle: int) -> str:  # noqa: N802
    return "NVIDIA Imaginary 80GB"


def nvmlDeviceGetMigMode(handle: int) -> tuple[int, int]:  # noqa: N802
    return 0, 0


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(total=80 * 2**30)
