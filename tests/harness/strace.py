"""Kills a process, or fails a call of it, at a chosen system call, with strace; and counts those that it makes.

The process is forked from this one, waits until strace watches it, and then does its work. A plain process may do this, and not
pytest's own one, which has threads.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

# Calls on files; `?` lets strace pass over those that this processor does not have.
CALLS = (
    *(
        "openat",
        "close",
        "write",
        "writev",
        "pwrite64",
        "pwritev",
        "fsync",
        "fdatasync",
        "?sync_file_range",
        "mkdirat",
        "?mkdir",
    ),
    *("?rename", "renameat", "renameat2", "?unlink", "unlinkat", "?rmdir", "flock", "ftruncate", "fallocate", "fchmod"),
    *("fchmodat", "getdents64", "newfstatat", "fstat", "statfs", "lseek", "fadvise64", "?link", "linkat", "?symlink"),
    *("symlinkat", "?access", "faccessat", "?stat", "?lstat", "copy_file_range", "sendfile"),
)
_KILLED = -9


def missing() -> str | None:
    """Why injection does not work here, or None if it does."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        code, _ = run(lambda: Path("/").stat(), "newfstatat,?stat,?statx:signal=SIGKILL:when=1", calls=("all",))
    except OSError as error:
        return f"strace cannot watch a process here: {error}"
    return None if code == _KILLED else "strace does not inject here"


def run(work: Callable[[], object], inject: str | None = None, calls: tuple[str, ...] = CALLS) -> tuple[int, str]:
    """Exit code, negative for a signal, and strace's log, of a forked process that does the work.

    `inject` is what strace's option of the name takes, as `write:signal=SIGKILL:when=3`.
    """
    with tempfile.NamedTemporaryFile(prefix="abreast-strace-") as log:
        begin, end = os.pipe()
        child = os.fork()
        if child == 0:
            _child(work, begin, end)
        os.close(begin)
        command = ["strace", "-f", "-p", str(child), "-o", log.name, "-e", f"trace={','.join(calls)}"]
        command += ["-e", f"inject={inject}"] if inject else []
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            line = strace.stderr.readline()
            os.write(end, b"g") if "attached" in line else os.kill(child, 15)
            os.close(end)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            rest = strace.stderr.read()
        if "attached" not in line:
            raise OSError((line + rest).strip()[-300:])
        return code, Path(log.name).read_text(errors="replace")


def counted(work: Callable[[], object]) -> Counter[str]:
    """How often the work makes each call. Raises `RuntimeError` if it fails."""
    code, log = run(work)
    if code:
        raise RuntimeError(f"the work ended with {code}:\n{log[-2000:]}")
    return Counter(re.findall(r"^\d+ +(\w+)\(", log, re.MULTILINE))


def _child(work: Callable[[], object], begin: int, end: int) -> None:
    code = 1
    try:
        if os.read(begin, 1):
            os.close(end)  # after strace counts: the number of calls is the same each time
            work()
            code = 0
    finally:
        os._exit(code)
