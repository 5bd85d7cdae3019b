"""One start of the script, seen from the disturbing process: its notes, signals to it, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from abreast.checking.log import Event, read
from abreast.checking.process import environment
from abreast.torture.notes import Note, read_notes
from abreast.torture.side import StartSpec

_LOOK_SECONDS = 0.002
_ORPHANS_SECONDS = 5.0
# The caller's folder is not on the import path before the script runs.
_PROGRAM = """
import sys
sys.path[0] = {package!r}
from abreast.torture.side import main
sys.exit(main(sys.argv[1], int(sys.argv[2])))
"""


class Start:
    """A process that runs the script."""

    def __init__(self, spec: StartSpec, process: subprocess.Popen[bytes]) -> None:
        self.spec, self.process = spec, process
        self.begun_seconds = time.monotonic()
        self._folder = Path(spec.folder)

    def notes(self, what: str = "") -> list[Note]:
        return [note for note in read_notes(self._folder / "notes.jsonl") if what in ("", note.what)]

    def said(self) -> str:
        """Its lines on stderr."""
        return (self._folder / "stderr").read_text(errors="replace")

    def events(self) -> list[Event]:
        return read(self._folder)

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds; False if the process ended before."""
        while not condition():
            if self.process.poll() is not None:
                return False
            time.sleep(_LOOK_SECONDS)
        return self.process.poll() is None

    def sleep(self, seconds: float) -> bool:
        """Wait; False if the process has ended."""
        end = time.monotonic() + seconds
        return self.wait_for(lambda: time.monotonic() >= end)

    def kill(self) -> int:
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def pause(self, seconds: float) -> bool:
        """Send SIGSTOP, and SIGCONT later; returns whether the process was seen to stop."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            seen = None
            end = time.monotonic() + 5
            while seen is None and time.monotonic() < end and self.process.returncode is None:
                with contextlib.suppress(ChildProcessError):
                    seen = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG)
                time.sleep(_LOOK_SECONDS)
            time.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)
        return seen is not None and seen.si_status == signal.SIGSTOP


@contextmanager
def started(spec: StartSpec) -> Iterator[Start]:
    """A new process in its own process group; it is killed when the block ends."""
    folder = Path(spec.folder)
    folder.mkdir(parents=True)
    program = _PROGRAM.format(package=str(Path(__file__).resolve().parents[2]))
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", program, spec.as_json(), str(os.getpid())],
            env=environment(spec.options),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield Start(spec, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        _end_group(process.pid)


def _end_group(group: int) -> None:
    """Wait for the workers to end with the process that started them, then kill the remaining ones."""
    end = time.monotonic() + _ORPHANS_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)
        os.killpg(group, signal.SIGKILL)
