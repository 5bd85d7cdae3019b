"""`Pair`: two processes of one core each, on this host or on two emulated ones, which train on request and wait otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lines
from slow_links import ADDRESSES, PORTS, SlowLink

DROPPED = 1  # updates at the begin of each turn
ENVIRONMENT = lines.STEADY_HEAP | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Program:
    """A script beside this one with the protocol of `slow_training.py`, its cell, and a core for each of the two processes."""

    script: str
    cell: Mapping[str, Any]
    backend: str
    cores: Sequence[int]
    port: int = PORTS[-1]  # where the processes meet, if they train together

    def start(self, rank: int, link: SlowLink | None) -> subprocess.Popen[str]:
        """On a link, the process finds the other one as under `torchrun`."""
        script = str(Path(__file__).with_name(self.script))
        host = [] if link is None else link.hosts[rank].command()
        return subprocess.Popen(
            [*host, "taskset", "-c", f"{self.cores[rank]}", sys.executable, script, json.dumps(self.cell)],
            env=os.environ | ENVIRONMENT | self._variables(rank, link),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # only this process gets Ctrl-C
        )

    def _variables(self, rank: int, link: SlowLink | None) -> dict[str, str]:
        backend = {"KERAS_BACKEND": self.backend}
        if link is None:
            return backend
        own = {"RANK": f"{rank}", "WORLD_SIZE": f"{len(ADDRESSES)}", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        return backend | own | {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": f"{self.port}"}


class Pair:
    """The two processes. With a link, each is on its host and they train together; without one, each trains alone."""

    def __init__(self, program: Program, link: SlowLink | None = None) -> None:
        self._script = program.script
        self._processes = [program.start(rank, link) for rank in range(len(ADDRESSES))]

    def __enter__(self) -> Pair:
        try:
            self.tensor_sizes: list[int] = self._answers()[0]["tensor_sizes"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, accumulation: int, updates: int) -> list[float]:
        """Seconds of each update, of the slower of the two processes: together they wait for one another at every step."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{accumulation} {DROPPED} {updates}\n")
            process.stdin.flush()
        return [max(both) for both in zip(*self._answers(), strict=True)]

    def _answers(self) -> list[Any]:
        said = [process.stdout.readline() for process in self._processes if process.stdout is not None]
        if not all(said):
            sys.exit(f"{self._script}: a process has ended, and said why above")
        return [json.loads(line) for line in said]

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()


def two_cores(script: str) -> list[int]:
    """A core for each host; this process and its children then keep to them."""
    cores = sorted(os.sched_getaffinity(0))[: len(ADDRESSES)]
    if len(cores) < len(ADDRESSES):
        sys.exit(f"{script}: this process may use one core only\nhint: give it two, one for each emulated host")
    os.sched_setaffinity(0, cores)
    return cores
