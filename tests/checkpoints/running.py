"""`Running`: a command that a test starts, waits for, sends signals to, and always ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.harness.folder import Folder, Result

_SECONDS = 60.0


class Running:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in (("out", process.stdout), ("err", process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: Any) -> None:
        for line in stream:
            self._lines[name].append(line)

    def wait_for(self, text: str, name: str = "out", count: int = 1) -> str:
        """The line that has this text, once it has come for the `count`-th time."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            found = [line for line in list(self._lines[name]) if text in line]
            if len(found) >= count:
                return found[count - 1].strip()
            assert self.process.poll() is None or self._readers[0].is_alive(), self._lines
            time.sleep(0.01)
        raise AssertionError(f"no line with {text!r}: {self._lines}")

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = _SECONDS) -> Result:
        """Exit code and output. Fails if the process does not end in time."""
        self.process.wait(seconds)
        for reader in self._readers:
            reader.join(5)
        return Result(self.process.returncode, "".join(self._lines["out"]), "".join(self._lines["err"]))


@contextmanager
def running(folder: Folder, *arguments: str, **environ: str) -> Iterator[Running]:
    """`python *arguments` in the folder, in a group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        cwd=folder.path,
        env=folder.environ(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Running(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
