"""The worker that failed first, and the error that names it, with the exception that it raised, or the end of its process."""

from __future__ import annotations

import builtins
import contextlib
import functools
import signal
from collections.abc import Sequence

from abreast.errors import WorkerError
from abreast.workers.supervised import SupervisedWorker
from abreast.workers.worker import COMMUNICATING


def failed_first(workers: Sequence[SupervisedWorker]) -> SupervisedWorker:
    """The worker that explains the failure best; among equals, the one that failed first. At least one has failed."""
    failed = [worker for worker in workers if verdict(worker)]
    return min(failed, key=lambda worker: (verdict(worker), worker.failed_time))


def verdict(worker: SupervisedWorker) -> int:
    """A grade for how well this worker explains a failure: 1 is best, 0 means that it did not fail.

    1: it died, or raised on its own account. 2: it hung. 3: it raised while it waited for another rank.
    """
    if worker.complaint is not None:
        return 3 if worker.complaint["phase"] == COMMUNICATING else 1
    if worker.exit_code is not None and not worker.asked_to_end:
        return 1
    return 2 if worker.hung else 0


def error_of(worker: SupervisedWorker, job: str) -> WorkerError:
    """The error for a failed worker: its rank, and the exception that it raised, or the end of its process."""
    start = f"rank {worker.rank} of {job}"
    if worker.complaint is not None:
        text = worker.complaint
        return _also(text["type"])(
            f"{start} raised {text['type']}: {text['message']}",
            text["hint"],
            rank=worker.rank,
            remote_traceback=text["traceback"],
        )
    if worker.exit_code is not None:
        return WorkerError(f"{start} {describe_exit(worker.exit_code)}", exit_hint(worker.exit_code), rank=worker.rank)
    hint = "the process was stopped, is swapping, or is in an endless loop; if it was only slow, raise the limit"
    return WorkerError(f"{start} {worker.hung}", hint, rank=worker.rank)


@functools.cache
def _also(name: str) -> type[WorkerError]:
    """`WorkerError` as a class that code which expects a built-in exception of this name catches, too."""
    kind = getattr(builtins, name, WorkerError)
    if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(WorkerError, kind):
        return WorkerError
    if issubclass(kind, _LEFT_OUT):
        return WorkerError
    return type("WorkerError", (WorkerError, kind), {"__module__": WorkerError.__module__})


# Errors that would end a loop in silence, or cannot be made from a text.
_LEFT_OUT = (StopIteration, StopAsyncIteration, BaseExceptionGroup, Warning)


def describe_exit(code: int) -> str:
    """The end of a process in words. `code` is the result of `Popen.wait`."""
    if code >= 0:
        return f"ended with exit code {code}"
    if -code == signal.SIGKILL:
        return "was killed (signal 9), perhaps out of memory"
    with contextlib.suppress(ValueError):
        return f"died of {signal.Signals(-code).name} (signal {-code})"
    return f"died of signal {-code}"


def exit_hint(code: int) -> str:
    if code == -signal.SIGKILL:
        return "look for `oom` in the kernel's log (`dmesg`); a smaller batch or model takes less memory"
    return "its last output is on stderr, above"
