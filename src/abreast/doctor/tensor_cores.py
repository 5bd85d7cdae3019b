"""The test for tensor cores in devices, as NVIDIA's driver reports them. Imports no framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.device_list import list_nvidia_devices

# The first CUDA architecture whose tensor cores support bfloat16.
_AMPERE = (8, 0)


def have_tensor_cores(devices: Sequence[str]) -> bool:
    """True if every device is an NVIDIA GPU that multiplies bfloat16 on tensor cores."""
    # Device names count the GPUs that this process sees, and the driver's indices count all GPUs.
    bus_ids = {device.name: device.bus_id for device in list_nvidia_devices()}
    if not all(bus_ids.get(name) for name in devices):
        return False
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        return all(_capability(pynvml, bus_ids[name]) >= _AMPERE for name in devices)
    except pynvml.NVMLError:
        return False
    finally:
        pynvml.nvmlShutdown()


def _capability(nvml: Any, bus_id: str | None) -> tuple[int, int]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(nvml.nvmlDeviceGetHandleByPciBusId(bus_id))
    return int(major), int(minor)
