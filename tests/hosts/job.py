"""Small processes without a framework that meet, as a launcher starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tests.harness.client import ROOT
from tests.launched.job import free_port, variables

SECRET = "a secret of the tests of hosts"

MEETS = """
import json, os, sys
from abreast.errors import AbreastError
from abreast.hosts import listener, meet, meeting
from abreast.launchers import read_world
listener._REFUSED_SECONDS, meeting._LINGER_SECONDS = 1, 2
try:
    meeting = meet(read_world(), json.loads(os.environ.get("HELLO", "{}")))
    rank = str(meeting.member.rank).encode()
    said = [meeting.exchange(rank * (int(rank) + 1)).__repr__(), meeting.exchange(b"").__repr__()]
    print(json.dumps([meeting.hellos, said]))
except AbreastError as error:
    print(error)
    sys.exit(1)
"""


class Job:
    """The processes of a job, each started with its number; all end with this object."""

    def __init__(self, size: int, script: str = MEETS, **common: str) -> None:
        self.port = free_port()
        self._size, self._script = size, script
        self._common = {"ABREAST_SECRET": SECRET, "ABREAST_JOIN_SECONDS": "20", **common}
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, rank: int, *, size: int | None = None, command: list[str] | None = None, **changed: str) -> None:
        world = variables(rank, size or self._size, self.port, "127.0.0.1")
        environ = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **world, **self._common, **changed}
        words = [*(command or []), sys.executable, "-c", self._script]
        self.processes.append(
            subprocess.Popen(
                words, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *raised: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate(timeout=10)

    def said(self, process: int, seconds: float = 60) -> str:
        """What a process has printed until its end."""
        return self.processes[process].communicate(timeout=seconds)[0]

    def errors(self, seconds: float = 60) -> list[str]:
        """What each process has printed; all have ended with an error."""
        said = [self.said(process, seconds) for process in range(len(self.processes))]
        assert [process.returncode for process in self.processes] == [1] * len(said), said
        return said


def started(size: int, changed: Mapping[int, Mapping[str, Any]], **common: str) -> Job:
    """A job of `size` processes, some of them with other variables than the rest."""
    job = Job(size, **common)
    for rank in range(size):
        job.start(rank, **changed.get(rank, {}))
    return job
