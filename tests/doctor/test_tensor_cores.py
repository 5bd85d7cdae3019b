"""Tensor cores are asked of the GPUs that this process sees, which `CUDA_VISIBLE_DEVICES` chooses and numbers."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from abreast.doctor.tensor_cores import have_tensor_cores

V100, A100 = (7, 0), (8, 0)


class FakeNvml:
    """A driver with GPUs of these compute capabilities. A handle is the index of a GPU."""

    class NVMLError(Exception):
        pass

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        self._capabilities = capabilities
        self.open_count = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self._capabilities:
            raise self.NVMLError
        self.open_count += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open_count -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._capabilities)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> int:  # noqa: N802
        return int(bus_id)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=str(handle))

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "a GPU"

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=1 << 30)

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return self._capabilities[handle]


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml, visible: str | None = None) -> FakeNvml:
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("ABREAST_CPU_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    return fake


@pytest.mark.parametrize(("visible", "expected"), [("0", False), ("1", True), ("1,0", False), (None, False)])
def test_only_visible_gpus_count(monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: bool) -> None:
    install(monkeypatch, FakeNvml(V100, A100), visible)
    names = [f"gpu:{index}" for index in range(2 if visible is None else len(visible.split(",")))]
    assert have_tensor_cores(names) == expected


def test_the_driver_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeNvml(A100))
    assert have_tensor_cores(["gpu:0"])
    assert fake.open_count == 0


@pytest.mark.parametrize("names", [["cpu:0"], ["gpu:0", "gpu:1"], ["tpu:0"]])
def test_other_devices_have_no_tensor_cores(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    install(monkeypatch, FakeNvml(A100))
    assert not have_tensor_cores(names)


def test_a_machine_without_a_driver_has_no_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml())
    assert not have_tensor_cores(["gpu:0"])
