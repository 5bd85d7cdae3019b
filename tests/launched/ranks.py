"""`Ranks`: long-lived processes of one job on emulated hosts, in which test bodies run at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.slow_links import Namespace
from tests.harness.client import RemoteError, Worker, WorkerLost
from tests.launched.emulated_hosts import address_of
from tests.launched.job import free_port

_PATTERN = re.compile(r"(\d)x(\d):(host|device)")


@dataclass(frozen=True)
class Shape:
    """So many hosts with so many devices each, with one process per host or per device. Written as `2x2:host`."""

    hosts: int
    devices: int
    per: Literal["host", "device"]

    @staticmethod
    def of(text: str) -> Shape:
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no shape such as 2x2:host or 2x2:device")
        hosts, devices, per = found.groups()
        return Shape(int(hosts), int(devices), per)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.hosts}x{self.devices}:{self.per}"

    @property
    def processes_per_host(self) -> int:
        return 1 if self.per == "host" else self.devices

    @property
    def size(self) -> int:
        return self.hosts * self.processes_per_host

    def variables(self, rank: int, port: int) -> dict[str, str]:
        """Those of torchrun."""
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(rank % self.processes_per_host),
            "LOCAL_WORLD_SIZE": str(self.processes_per_host),
            "MASTER_ADDR": address_of(0),
            "MASTER_PORT": str(port),
        }


class Ranks:
    """The processes start with the first call, and anew after a call that lost one of them."""

    def __init__(self, backend: str, shape: Shape, hosts: Sequence[Namespace]) -> None:
        self.shape = shape
        self._backend = backend
        self._hosts = hosts
        self._workers: list[Worker] = []

    def run(self, function: Callable[..., Any], timeout_seconds: float, **arguments: Any) -> list[Any]:
        """The result of each rank. Raises `RemoteError` or `WorkerLost`, that of the lowest rank, and then ends all."""
        self._workers = self._workers or self._started()
        for worker in self._workers:
            worker.begin(function, **arguments)
        try:
            return [worker.result(timeout_seconds) for worker in self._workers]
        except (RemoteError, WorkerLost):
            self.kill()
            raise

    def close(self) -> list[str]:
        """Let all processes end; returns lines that name processes that are left."""
        for worker in self._workers:
            worker.hang_up()
        return [line for worker in self._workers for line in worker.close()]

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []

    def _started(self) -> list[Worker]:
        port = free_port()
        devices = self.shape.devices if self.shape.per == "host" else 1
        return [
            Worker(self._backend, devices, self.shape.variables(rank, port), self._prefix(rank))
            for rank in range(self.shape.size)
        ]

    def _prefix(self, rank: int) -> list[str]:
        return self._hosts[rank // self.shape.processes_per_host].command()
