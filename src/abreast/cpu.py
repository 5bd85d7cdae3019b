"""The processor of this machine: its model, and the cores and the memory that this process may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from abreast.system_files import text_of


def cpu_model(root: Path = Path("/")) -> str:
    """The processor's model name."""
    for line in text_of(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine() or "CPU"


def num_cores() -> int:
    """Number of cores that this process may use. A container or `taskset` can allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_memory_bytes(root: Path = Path("/")) -> int:
    """The memory of the machine, or the limit of a container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = text_of(root / "sys/fs/cgroup/memory.max")
    return min(physical, int(limit)) if limit.isdecimal() else physical


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """Memory that can be allocated without swapping; None if the system does not report it."""
    lines = dict(line.partition(":")[::2] for line in text_of(root / "proc/meminfo").splitlines())
    kibibytes = lines.get("MemAvailable", "").split()
    return int(kibibytes[0]) * 1024 if kibibytes else None
