"""One worker process from its supervisor's side: starts it, receives its messages and ends it.

Not here: the test for a failure, and its error (`failure.py`). Needs Linux for `SOCK_SEQPACKET` and process groups.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.stderr import tell
from abreast.workers.worker import BEAT, IDLE

_MESSAGE_BYTES = 96 * 1024  # a seqpacket must fit into the socket's buffer
_BOOT = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from abreast import workers; workers.serve(settings)"
)


class SupervisedWorker:
    """One worker from the supervisor's side. Only the supervisor's thread calls its methods."""

    def __init__(
        self, rank: int, module: str, environment: Mapping[str, str], fds: Sequence[int], argument: str
    ) -> None:
        self.rank = rank
        self.process: subprocess.Popen[bytes] | None = None
        self.phase = IDLE
        self.progress_time = time.monotonic()
        self.silent_seconds = 0.0
        self.ready = False  # true after the first beat from the worker's `main`
        self.hung: str | None = None
        self.failed_time = float("inf")
        self.complaint: dict[str, Any] | None = None
        self.exit_code: int | None = None
        self.asked_to_end = False
        self._progress = -1
        self._fds = tuple(fds)
        self._environment = environment
        self._settings = {"module": module, "rank": rank, "fds": self._fds, "argument": argument}
        self.monitor, self._remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.monitor.setblocking(False)

    def start(self) -> None:
        path = [os.path.abspath(entry) for entry in sys.path]
        settings = self._settings | {"path": path, "monitor": self._remote.fileno(), "parent": os.getpid()}
        self.process = subprocess.Popen(
            [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _BOOT, json.dumps(settings)],  # type: ignore[attr-defined]
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self._environment},
            pass_fds=(self._remote.fileno(), *self._fds),
            start_new_session=True,  # so that Ctrl-C reaches only the caller, and the worker ends with its own children
        )
        self._remote.close()

    def listen(self) -> bool:
        """Receive all waiting messages of the worker. False if its connection is closed."""
        while True:
            try:
                message = self.monitor.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not message:
                return False
            self.silent_seconds = 0.0
            self._take(message)

    def _take(self, message: bytes) -> None:
        if message[:1] != b"H":
            self.complaint = json.loads(message[1:])
            self.failed_time = min(self.failed_time, time.monotonic())
            return
        _, progress, self.phase = BEAT.unpack(message)
        self.ready |= progress > 0
        if progress != self._progress:
            self._progress, self.progress_time = progress, time.monotonic()

    def look(self) -> bool:
        """True if the process has ended; then the other processes of its group are killed."""
        if self.process is None or self.exit_code is not None:
            return True
        # WNOWAIT: until the process is reaped below, no other process can get its group's number.
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.listen()  # its last messages
        self.kill()
        self.exit_code = self.process.wait()
        self.failed_time = min(self.failed_time, time.monotonic())
        return True

    def ask_to_end(self) -> None:
        self.asked_to_end = True
        with contextlib.suppress(OSError):
            self.monitor.send(b"Q")

    def kill(self) -> None:
        if self.process is None or self.exit_code is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        if self.process is not None and self.exit_code is None:
            self.kill()
            try:
                self.exit_code = self.process.wait(5)
            except subprocess.TimeoutExpired:  # it is in an uninterruptible call of the kernel, and dies after that
                tell(f"rank {self.rank} (process {self.process.pid}) has not ended yet")
        self.monitor.close()
        self._remote.close()

    def abandon(self) -> None:
        if self.process is not None:
            self.process.returncode = 0  # otherwise its finalizer warns about a process that is not our child
        self.monitor.close()
        self._remote.close()
