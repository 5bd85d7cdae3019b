"""The process of the user's script, seen from its Ray worker: its start, its output, and its end with the worker.

Needs Linux for `PR_SET_PDEATHSIG` and process groups.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

StreamName = Literal["stdout", "stderr"]
_HOME = str(Path(__file__).parents[2])  # the folder that holds abreast
_BOOT = (
    "import sys; parent, home, *words = sys.argv[1:]; sys.path.append(home); "
    "from abreast.workers.worker import die_with; die_with(int(parent)); "
    "from abreast.cli import main; sys.exit(main(words))"
)
_READ_BYTES = 64 * 1024
_LAST_BYTES = 4 * 1024
_LOOK_SECONDS = 0.2


class Child:
    """One run of `abreast` with these words. Use it in one thread: the process ends with that thread."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], folder: str) -> None:
        self.last = b""  # the end of its output
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(os.getpid()), _HOME, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environ,
            start_new_session=True,  # Ctrl-C is for the driver; the script's children can end with its group
        )

    def run(self, take: Callable[[StreamName, bytes], None]) -> int:
        """Pass all output to `take` until the script has ended; returns its exit code, or minus the number of a signal.

        Processes that the script started end with it.
        """
        try:
            with selectors.DefaultSelector() as selector:
                for name in ("stdout", "stderr"):
                    selector.register(getattr(self._process, name), selectors.EVENT_READ, name)
                while selector.get_map() and not (self._has_ended() and not selector.select(0)):
                    for key, _ in selector.select(_LOOK_SECONDS):
                        if data := os.read(key.fd, _READ_BYTES):
                            self.last = (self.last + data)[-_LAST_BYTES:]
                            take(key.data, data)
                        else:
                            selector.unregister(key.fileobj)
            while not self._has_ended():
                time.sleep(_LOOK_SECONDS / 4)
        finally:
            self._end()
        return self._process.returncode

    def _has_ended(self) -> bool:
        # WNOWAIT: until the process is reaped, no other process can get its group's number.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
