"""The lock of a folder of checkpoints: one job at a time changes it.

The system releases the lock when the process ends, however it ends. The lock file stays, and is empty or names its holder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from abreast.checkpoints.files import write_errors
from abreast.errors import CheckpointError
from abreast.stderr import tell_once

LOCK = ".lock"
_SEEN_SECONDS = 10.0
_CANNOT_LOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FolderLock:
    """Holds a folder of checkpoints until the end of the block; a process may hold it several times.

    Raises a `CheckpointError` with process and host if another process holds it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(os.path.abspath(folder))

    def __enter__(self) -> FolderLock:
        with _changing:
            held = _held.get(self._folder)
            if held is None:
                _held[self._folder] = [_locked(self._folder), 1]
            else:
                held[1] += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with _changing:
            held = _held.get(self._folder)
            if held is None:  # a forked process, which has not inherited the lock
                return
            held[1] -= 1
            if not held[1]:
                del _held[self._folder]
                os.ftruncate(held[0], 0)
                os.close(held[0])


def holder_of(folder: str | os.PathLike[str]) -> str:
    """The text that the holder of a folder's lock wrote into it; empty if there is no holder, or no such folder."""
    try:
        return (Path(folder) / LOCK).read_text(errors="replace")[:1000]
    except OSError:
        return ""


def is_held_by(folder: str | os.PathLike[str], holder: str) -> bool:
    """Whether this host sees the lock that `holder` wrote; waits up to 10 s, because a network file system may show it late."""
    end = time.monotonic() + _SEEN_SECONDS
    while holder_of(folder) != holder:
        if time.monotonic() > end:
            return False
        with contextlib.suppress(OSError):
            for path in (Path(folder).parent, folder):
                os.listdir(path)  # makes the system ask the server again
        time.sleep(0.1)
    return True


# By folder: the descriptor of its lock file, and the number of blocks in this process that hold it.
_held: dict[Path, list[int]] = {}
_changing = threading.Lock()


def _after_fork() -> None:
    """Release the lock in a forked process, which could outlive this one and block the next job."""
    global _changing
    _changing = threading.Lock()
    for descriptor, _ in _held.values():
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)


def _locked(folder: Path) -> int:
    with write_errors(folder):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _take(descriptor, folder)
        with write_errors(folder):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
            os.fsync(descriptor)  # for readers on other hosts
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait until that job ends, stop it, or give this one another folder"
        raise CheckpointError(f"{folder} is in use by another job: {_holder(descriptor)}", hint) from None
    except OSError as error:
        if error.errno not in _CANNOT_LOCK:
            raise
        tell_once(f"{folder} cannot be locked ({error.strerror}): take care that one job at a time uses it")


def _holder(descriptor: int) -> str:
    try:
        found = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {int(found['pid'])} on host {str(found['host'])[:200]}"
    except (ValueError, KeyError, TypeError):  # the holder is just taking or releasing the lock
        return "a process that does not name itself"
