"""The error of a script that failed on a worker of Ray, and Ray's own errors as ours."""

from __future__ import annotations

import re
import time
from typing import Any

from abreast.errors import AbreastError, WorkerError

_SIGNAL_EXIT = 128


class ScriptFailed(WorkerError):
    """The script of one rank did not end with exit code 0.

    Args:
        rank: the rank of the script, among `size`.
        size: the number of ranks.
        host: the name of its host.
        returned: its exit code, or minus the number of the signal that ended it.
        last_lines: the end of its output, or None if that was shown already.
        failed_time: the time of its end, in seconds since the epoch.
    """

    def __init__(
        self, rank: int, size: int, host: str, returned: int, last_lines: str | None, failed_time: float | None = None
    ) -> None:
        how = f"ended with exit code {returned}" if returned > 0 else f"was ended by signal {-returned}"
        shown = "" if not last_lines else f"; its last lines:\n{last_lines.rstrip()}"
        super().__init__(f"the script {how} on rank {rank} of {size}, host {host}{shown}", rank=rank)
        self.exit_code = returned if returned > 0 else _SIGNAL_EXIT - returned
        self.failed_time = time.time() if failed_time is None else failed_time
        # A script that a signal ended died first; the others may have complained about it.
        self.order = (returned > 0, self.failed_time)
        self._made_of = (rank, size, host, returned, last_lines, self.failed_time)

    def __reduce__(self) -> Any:
        return type(self), self._made_of


def translated(error: Exception) -> AbreastError:
    """Our error for an exception of a trainer's `fit()`: the error of the rank that died or failed first, if known."""
    if isinstance(error, AbreastError):
        return error
    found = getattr(error, "worker_failures", None)
    if not found:
        return WorkerError(f"Ray could not run the script: {error}")
    failures: dict[int, Exception] = {rank: getattr(failure, "_base_exc", failure) for rank, failure in found.items()}
    ours = [failure for failure in failures.values() if isinstance(failure, AbreastError)]
    if len(ours) < len(failures):
        return _lost(*next((rank, each) for rank, each in failures.items() if each not in ours))
    return min(ours, key=lambda each: each.order if isinstance(each, ScriptFailed) else (False, 0.0))


def _lost(rank: int, failure: Exception) -> WorkerError:
    words = " ".join(str(getattr(failure, "health_check_failure", failure)).split())
    host = re.search(r"\bip: (\S+)", words)
    detail = re.search(r"Worker exit detail: (.*?)\.?(?: Some common causes|$)", words)
    where, why = f" on {host[1]}" if host else "", detail[1] if detail else words
    return WorkerError(
        f"Ray lost the worker of rank {rank}{where}: {why}",
        "see what happened on its host: no memory left, a preemption, the network",
        rank=rank,
    )
