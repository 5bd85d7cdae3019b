"""What this process and its workers take of the machine's cores and memory, from `/proc`, for `sampler.py`.

Imports `hardware` and `diagnosis`.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter_ns

from abreast.hardware import num_cores
from abreast.measure.diagnosis import Sample

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Processor:
    """CPU seconds over wall seconds and cores, since the sample before; resident memory."""

    def __init__(self, root: Path = Path("/proc"), process: int | None = None) -> None:
        self.note = None if (root / "self/stat").exists() else "no /proc: no utilisation and memory of the CPU"
        self._root = root
        self._process = os.getpid() if process is None else process
        self._cores = num_cores()
        self._before: dict[int, int] = {}
        self._before_ns = 0

    def sample(self) -> list[Sample]:
        """One sample from the second call on."""
        if self.note is not None:
            return []
        now_ns = perf_counter_ns()
        ticks, memory_bytes = self._look(self._process)
        used = sum(count - self._before.get(process, 0) for process, count in ticks.items()) / _TICKS
        seconds = (now_ns - self._before_ns) / 1e9
        is_first, self._before, self._before_ns = not self._before, ticks, now_ns
        if is_first:
            return []
        share = min(1.0, max(0.0, used / seconds / self._cores))
        return [Sample("cpu", now_ns, share, memory_bytes)]

    def close(self) -> None:
        pass

    def _look(self, process: int) -> tuple[dict[int, int], int]:
        """CPU ticks by process, and bytes of memory, of a process and all that it started."""
        folder = self._root / str(process)
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            memory_bytes = int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES
            children = [
                int(child) for task in (folder / "task").iterdir() for child in (task / "children").read_text().split()
            ]
        except (OSError, IndexError, ValueError):
            return {}, 0  # it has ended
        ticks = {process: int(fields[11]) + int(fields[12])}
        for child in children:
            more_ticks, more_bytes = self._look(child)
            ticks |= more_ticks
            memory_bytes += more_bytes
        return ticks, memory_bytes
