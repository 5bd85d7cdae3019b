"""The share of the machine's cores and memory that this process and its children use; a probe for `sampler.py`.

Reads `/proc`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns

from abreast.cpu import num_cores
from abreast.samplers.sample import DeviceSample

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLES_PER_SEARCH = 10  # samples between two searches for new child processes
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Processor:
    """CPU utilisation since the previous sample (CPU seconds / (wall seconds * cores)), and resident memory."""

    def __init__(self, root: Path = Path("/proc"), process: int | None = None) -> None:
        self.note = None if (root / "self/stat").exists() else "no /proc: no utilisation and memory of the CPU"
        self._root = root
        self._process = os.getpid() if process is None else process
        self._cores = num_cores()
        self._processes = [self._process]
        self._until_search = 0
        self._before: dict[int, int] = {}
        self._before_ns = 0

    def sample(self) -> list[DeviceSample]:
        """One sample; none at the first call, because utilisation needs two readings."""
        if self.note is not None:
            return []
        now_ns = perf_counter_ns()
        if not self._until_search:  # a search takes a hundred times as long as reading one process
            self._until_search = _SAMPLES_PER_SEARCH
            self._processes = list(self._family(self._process))
        self._until_search -= 1
        ticks, memory_bytes = self._look()
        used = sum(count - self._before.get(process, count) for process, count in ticks.items()) / _TICKS
        seconds = (now_ns - self._before_ns) / 1e9
        is_first, self._before, self._before_ns = not self._before, ticks, now_ns
        if is_first:
            return []
        share = min(1.0, max(0.0, used / seconds / self._cores))
        return [DeviceSample("cpu", now_ns, share, memory_bytes)]

    def close(self) -> None:
        pass

    def _look(self) -> tuple[dict[int, int], int]:
        """CPU ticks by process, and the memory of all processes together in bytes."""
        ticks, memory_bytes = {}, 0
        for process in self._processes:
            folder = self._root / str(process)
            with contextlib.suppress(OSError, IndexError, ValueError):  # the process has ended
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                memory_bytes += int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES
                ticks[process] = int(fields[11]) + int(fields[12])
        return ticks, memory_bytes

    def _family(self, process: int) -> Iterator[int]:
        """A process and all its descendants."""
        yield process
        with contextlib.suppress(OSError, ValueError):
            tasks = list((self._root / str(process) / "task").iterdir())
            for child in [int(child) for task in tasks for child in (task / "children").read_text().split()]:
                yield from self._family(child)
