"""`DeviceSample`: the utilisation, memory and clock of one device at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceSample:
    """The state of a device at `time_ns`, from NVML, or from /proc for the CPU.

    `utilisation` is from 0 to 1, or NaN if the driver does not report it.
    """

    device: str
    time_ns: int
    utilisation: float
    memory_bytes: int
    clock_mhz: float | None = None
