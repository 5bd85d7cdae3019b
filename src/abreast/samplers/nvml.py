"""Utilisation, memory and clocks of NVIDIA devices, as their driver reports them; a probe for `sampler.py`.

The driver answers without a framework, and without using a device's memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from abreast.device_list import Device, list_devices
from abreast.samplers.sample import DeviceSample


@dataclass(frozen=True)
class GpuSample(DeviceSample):
    """A sample of a GPU. `clock_mhz` is the multiprocessors' clock; a clock is None if the driver does not report it."""

    memory_clock_mhz: float | None = None


class NvidiaDevices:
    """The visible NVIDIA devices, by the names that `abreast devices` prints."""

    def __init__(self, devices: Sequence[Device] | None = None, nvml: Any = None) -> None:
        if nvml is None:
            import pynvml

            nvml = pynvml
        self.note: str | None = None
        self._nvml = nvml
        self._is_open = False
        self._handles: dict[str, Any] = {}
        devices = list_devices() if devices is None else devices
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            self.note = "no NVIDIA driver: no utilisation, memory and clocks of GPUs"
            return
        self._is_open = True
        for device in devices:
            if device.kind == "gpu" and device.uuid is not None:
                with contextlib.suppress(nvml.NVMLError):  # a GPU of another vendor
                    self._handles[device.name] = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
        if not self._handles:
            self.note = "no NVIDIA device: no utilisation, memory and clocks of GPUs"

    def sample(self) -> list[DeviceSample]:
        """One sample per device that answers."""
        found: list[DeviceSample] = []
        for name, handle in self._handles.items():
            rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            if rates is None and memory is None:
                continue
            found.append(
                GpuSample(
                    name,
                    perf_counter_ns(),
                    utilisation=rates.gpu / 100 if rates is not None else float("nan"),
                    memory_bytes=int(memory.used) if memory is not None else 0,
                    clock_mhz=self._ask("nvmlDeviceGetClockInfo", handle, self._nvml.NVML_CLOCK_SM),
                    memory_clock_mhz=self._ask("nvmlDeviceGetClockInfo", handle, self._nvml.NVML_CLOCK_MEM),
                )
            )
        return found

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _ask(self, question: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, question)(*arguments)
        except self._nvml.NVMLError:
            return None  # a MIG instance has no utilisation, and an integrated GPU no memory of its own
