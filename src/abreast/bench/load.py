"""The load of other processes: the number of cores that they use while a measurement runs."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_STAT = Path("/proc/stat")
# Fields of a line: user, nice, system, irq, softirq, and time stolen by other virtual machines.
_BUSY = (1, 2, 3, 6, 7, 8)


class LoadOfOthers:
    """The load since this object was made. Child processes count as this process's own load after their end."""

    def __init__(self) -> None:
        self._time, self._all, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """The mean number of cores used by other processes, among the cores of this process; None if unknown."""
        passed, everything = time.monotonic() - self._time, _busy_seconds()
        if everything is None or self._all is None or passed <= 0:
            return None
        return max(0.0, everything - self._all - (_own_seconds() - self._own)) / passed


def _busy_seconds() -> float | None:
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        fields = [line.split() for line in _STAT.read_text().splitlines()]
        ticks = sum(int(line[column]) for line in fields if line and line[0] in ours for column in _BUSY)
    except (OSError, ValueError, IndexError):  # another kernel, or a container that hides it
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
