"""Leftovers of a job: processes, files, and sockets that listen."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.slow_links import Namespace

_SHARED = Path("/dev/shm")
_PATIENCE_SECONDS = 6.0  # that the ends of processes take


class Leftovers:
    """Looks for what carries `mark` in its environment, lies in `folder` or in shared memory, or listens in `hosts`.

    Other programs may use shared memory as well: only new files count that no living process has open.
    """

    def __init__(
        self, mark: str, folder: Path, hosts: Sequence[Namespace], patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        self._mark, self._folder, self._hosts = mark.encode(), folder, hosts
        self._patience_seconds = patience_seconds
        self._before = set(os.listdir(_SHARED))

    def found(self) -> list[str]:
        """A line for each; waits a few seconds for them to go."""
        deadline = time.monotonic() + self._patience_seconds
        while (found := [*self._processes(), *self._files(), *self._listeners()]) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _processes(self) -> Iterator[str]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (process / "environ").read_bytes():
                    yield f"process {process.name}: {(process / 'cmdline').read_bytes()[:200]!r}"
            except OSError:  # it has ended
                continue

    def _files(self) -> Iterator[str]:
        yield from (f"file {path}" for path in self._folder.rglob("*") if not path.is_dir())
        new = set(os.listdir(_SHARED)) - self._before
        if new:
            used = _open_files()
            yield from (f"shared memory {name}" for name in sorted(new) if str(_SHARED / name) not in used)

    def _listeners(self) -> Iterator[str]:
        for host in self._hosts:
            done = subprocess.run(host.command("ss", "-lntuH"), capture_output=True, text=True, check=True)
            yield from (f"listener {line}" for line in done.stdout.splitlines())


def _open_files() -> set[str]:
    """All files in shared memory that a living process has mapped or open."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "maps").read_text()
            links = [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        found |= {line.split()[-1] for line in maps.splitlines() if str(_SHARED) in line}
        found |= {link for link in links if link.startswith(str(_SHARED))}
    return found
