"""`Sample`: the utilisation, memory and clock of one device at one moment. Imports nothing of abreast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """What a device did at a time: of NVML, or of /proc for the CPU. Shares are from 0 to 1; NaN: not told."""

    device: str
    time_ns: int
    utilisation: float
    memory_bytes: int
    clock_mhz: float | None = None
