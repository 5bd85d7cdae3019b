"""The Ray cluster: the connection to it, or its start on this machine; its hosts, and the wait for them. Imports Ray late."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from abreast.errors import LaunchError
from abreast.ray.installed import ray_train
from abreast.stderr import tell
from abreast.units import counted

_TELL_SECONDS = 10.0  # time until the first line; each next line comes after twice the time
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    """A run's request to Ray: a worker on each of `hosts` hosts, with `gpus_per_host` GPUs (None: all of the host's)."""

    hosts: int
    gpus_per_host: int | None = None
    start_timeout: float = 300.0

    def __post_init__(self) -> None:
        if self.hosts < 1:
            raise LaunchError(f"--hosts {self.hosts} is not a valid number of hosts", "give at least 1, as `--hosts 2`")
        if self.gpus_per_host is not None and self.gpus_per_host < 0:
            raise LaunchError(f"--gpus-per-host {self.gpus_per_host} is not a valid number of GPUs", "0 means the CPU")

    def resources(self) -> dict[str, float]:
        """The resources of one worker. One CPU is only for Ray's bookkeeping: the script may use its whole host."""
        return {"CPU": 1, **({"GPU": self.gpus_per_host} if self.gpus_per_host else {})}

    def __str__(self) -> str:
        gpus = f" with {counted(self.gpus_per_host, 'GPU')} each" if self.gpus_per_host else ""
        return f"{counted(self.hosts, 'host')}{gpus}"


@contextlib.contextmanager
def connected(hosts: int) -> Iterator[bool]:
    """Inside, this process is a driver of Ray; at the end, everything that it started there ends. Yields True for a new cluster.

    Raises `LaunchError` if several hosts are requested and no cluster runs, or if the cluster cannot be reached.
    """
    ray_train()
    import ray

    if address := os.environ.get("RAY_ADDRESS"):
        _check_reachable(address)
    is_new = False
    try:  # without RAY_ADDRESS and without a cluster on this machine, Ray raises ConnectionError
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    except ConnectionError as error:
        if hosts > 1:
            raise _no_cluster(hosts, error) from None
        tell("no Ray cluster runs here; starting one on this machine for this run")
        ray.init(address="local", log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        is_new = True
    except Exception as error:
        raise LaunchError(
            f"cannot connect to the Ray cluster: {error}", "`ray status` checks the connection"
        ) from error
    try:
        yield is_new
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise `LaunchError` for an address at which no cluster listens; Ray would retry for minutes."""
    if "://" in address:
        hint = (
            "set RAY_ADDRESS to HOST:6379 of the head node and start on a node of the cluster, or use `ray job submit`"
        )
        raise LaunchError(f"RAY_ADDRESS={address} is not the address of a cluster itself", hint)
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():  # such as `auto`
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        hint = "`ray start --head` prints the address; `unset RAY_ADDRESS` uses the cluster of this machine"
        raise LaunchError(f"no Ray cluster can be reached at RAY_ADDRESS={address}: {error}", hint) from error


def _no_cluster(hosts: int, error: Exception) -> LaunchError:
    return LaunchError(
        f"{hosts} hosts asked for, and no Ray cluster was found: {str(error).splitlines()[0]}",
        "`ray start --head` on one host and `ray start --address HOST:6379` on the others; or set RAY_ADDRESS",
    )


def completed(request: Request) -> Request:
    """The request with GPUs per host: the largest number that enough hosts have."""
    if request.gpus_per_host is not None:
        return request
    counts = sorted((int(resources.get("GPU", 0)) for resources in _hosts()), reverse=True)
    return Request(request.hosts, (counts[: request.hosts] or [0])[-1], request.start_timeout)


class Waiting:
    """The wait for the hosts: it reports missing resources, and has a time limit."""

    def __init__(self, request: Request, *, can_grow: bool) -> None:
        self._request, self._can_grow = request, can_grow
        self._start = time.monotonic()
        self._next_line = self._start + _TELL_SECONDS

    def look(self) -> None:
        """Report the wait; call this often. Raises `LaunchError` after the time limit, or if waiting cannot help."""
        now = time.monotonic()
        is_hopeless = not self._can_grow and self._fitting() < self._request.hosts
        if is_hopeless or now - self._start > self._request.start_timeout:
            within = "" if is_hopeless else f" within {self._request.start_timeout:g} s"
            raise LaunchError(
                f"Ray did not start the script on {self._request}{within}: {self._there()}",
                "ask for what the cluster has (`ray status`), add hosts, or wait longer with --start-timeout SECONDS",
            )
        if now > self._next_line:
            self._next_line = self._start + 2 * (now - self._start)
            tell(f"waiting for Ray to start the script on {self._request}: {self._there()}")

    def _fitting(self) -> int:
        wanted = self._request.resources()
        return sum(all(each.get(name, 0) >= number for name, number in wanted.items()) for each in _hosts())

    def _there(self) -> str:
        import ray

        wanted, free = self._request.resources(), ray.available_resources()
        each = " and ".join(counted(int(number), name) for name, number in wanted.items())
        unused = " and ".join(counted(int(free.get(name, 0)), name) for name in wanted)
        return (
            f"of {counted(len(_hosts()), 'host')} in the cluster, {self._fitting()} have {each}; free in all: {unused}"
        )


def _hosts() -> list[dict[str, Any]]:
    """The resources of each living host."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
