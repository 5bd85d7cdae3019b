"""`Worker`: a process that runs test bodies with one backend; `Workers`: the two of a backend, plain and abreast.

A worker that dies or takes too long fails the call that it was in; the next call starts a new one. Imports no framework.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# For scripts: abreast, and no framework but that of `KERAS_BACKEND` (see `tests/hiding`).
SCRIPTS_PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "hiding")])
BACKENDS = ("jax", "tensorflow", "torch")
TITLES = {"jax": "JAX", "tensorflow": "TensorFlow", "torch": "PyTorch"}
NUM_DEVICES = 4
TIMEOUT_SECONDS = 180.0

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "KERAS_HOME": "",  # set per process: no user's configuration
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_NUM_INTRAOP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


class RemoteError(Exception):
    """A test body raised; `kinds` are the names of the exception's classes, `message` its text."""

    def __init__(self, kinds: list[str], message: str, remote_traceback: str) -> None:
        super().__init__(f"{kinds[0]}: {message}\n{remote_traceback}")
        self.kinds = kinds
        self.message = message


class WorkerLost(Exception):
    """A worker died or did not answer in time."""


class Worker:
    """One process. `devices` = 0 means plain Keras without abreast. `prefix` is a command that runs its command."""

    def __init__(
        self, backend: str, devices: int, environment: dict[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> None:
        self.backend = backend
        self.devices = devices
        self._environment = environment or {}
        self._prefix = prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._log = tempfile.TemporaryFile()
        self._home = tempfile.TemporaryDirectory(prefix="abreast-test-")

    @property
    def pid(self) -> int:
        """Its process id; starts the process if needed."""
        self._start()
        assert self._process is not None
        return self._process.pid

    def run(self, function: Callable[..., Any], *, timeout_seconds: float = TIMEOUT_SECONDS, **arguments: Any) -> Any:
        """Run `function(**arguments)` in the process; returns its result. Raises `RemoteError`, `WorkerLost`."""
        self.begin(function, **arguments)
        return self.result(timeout_seconds)

    def begin(self, function: Callable[..., Any], **arguments: Any) -> None:
        """Let the process begin on `function`; `result` waits for it."""
        self._start()
        assert self._connection is not None
        try:
            self._connection.send((f"{function.__module__}:{function.__name__}", arguments))
        except OSError as error:
            raise self._lost("ended between two calls") from error

    def result(self, timeout_seconds: float = TIMEOUT_SECONDS) -> Any:
        """The result of the function that was begun last."""
        assert self._connection is not None
        try:
            if not self._connection.poll(timeout_seconds):
                self._signal(signal.SIGUSR1)
                raise self._lost(f"gave no answer in {timeout_seconds:.0f} s")
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._lost("died") from error
        if answer[0] == "error":
            raise RemoteError(*answer[1:])
        return answer[1]

    def log_tail(self, num_bytes: int = 3000) -> str:
        """The end of the process's output."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), num_bytes, max(0, size - num_bytes)).decode(errors="replace")

    def hang_up(self) -> None:
        """Let the process end, without waiting for it."""
        if self._connection is not None:
            self._connection.close()

    def kill(self) -> None:
        if self._process is not None:
            self._kill()

    def close(self) -> list[str]:
        """End the process; returns lines that name processes of its session that still run after 5 s."""
        if self._process is None:
            return []
        process = self._process
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        stuck = [self._stuck()] if process.poll() is None else []
        left = stuck or left_behind(process.pid, seconds=15)
        self._kill()
        return left

    def _stuck(self) -> str:
        """Says where it hangs, too."""
        self._signal(signal.SIGUSR1)
        time.sleep(1)
        return f"{self} did not end by itself\n--- it said ---\n{self.log_tail(20_000)}"

    def __str__(self) -> str:
        return f"{self.backend} worker with {self.devices} devices" if self.devices else f"plain {self.backend} worker"

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        ours, theirs = socket.socketpair()
        environment = {
            **os.environ,
            **ENVIRONMENT,
            "KERAS_BACKEND": self.backend,
            "KERAS_HOME": self._home.name,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            **self._environment,
        }
        with theirs:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "tests.harness.worker", str(theirs.fileno()), str(self.devices)],
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what it leaves behind can be found
            )
        self._connection = Connection(ours.detach())

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _lost(self, what: str) -> WorkerLost:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self._process.poll()
        self._kill()
        return WorkerLost(f"the {self} {what} (exit code {code})\n--- it said ---\n{self.log_tail()}")

    def _kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._process = self._connection = None


def left_behind(session: int, seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while (left := _processes_of(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _processes_of(session: int) -> list[str]:
    """Every running process of a session, without zombies. Reads /proc; on other systems it finds no process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, fields = status.read_text().rpartition(")")
            state, _, _, of_session = fields.split()[:4]
            if int(of_session) == session and state != "Z":
                found.append(f"process {name.replace('(', '')} of session {session}")
    return found


@dataclass
class Workers:
    """The processes of one backend: `plain` Keras without abreast, and `abreast` with four simulated CPU devices."""

    backend: str
    plain: Worker
    abreast: Worker

    @staticmethod
    def of(backend: str) -> Workers:
        return Workers(backend, Worker(backend, 0), Worker(backend, NUM_DEVICES))

    def close(self) -> list[str]:
        return self.plain.close() + self.abreast.close()
