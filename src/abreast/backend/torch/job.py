"""A job of several processes of PyTorch: how a process joins it, and torch's store as its board (`exchange.py`)."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from abreast.backend.exchange import Exchange
from abreast.backend.leaving import PREFIXES
from abreast.backend.torch.groups import Span
from abreast.errors import LaunchError
from abreast.launchers import World, address_of_rank_0
from abreast.launchers.route import addresses, with_port

_JOIN = timedelta(minutes=30)
_BACKLOG = 1024
_ANSWER = timedelta(seconds=10)  # of the store, which has what is asked for
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 1e-4, 2e-2
_GONE = "abreast/gone/"
_GONE_SECONDS = 3.0


class Job(Exchange):
    """The messages of one job. They go over the store that torch has on rank 0, or that torchrun has there."""

    def __init__(self, world: World) -> None:
        self._store = _store(world)
        super().__init__(_Board(self._store, world.rank, world.size), world.rank, world.size)

    def span(self, counts: Sequence[int]) -> Span:
        """The ranks of this process, where each process has so many devices."""
        store = self._store
        while isinstance(store, dist.PrefixStore):  # type: ignore[attr-defined]
            store = store.underlying_store
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun keeps its store
        return Span(self.rank, tuple(counts), store.host, store.port, f"abreast/{attempt}")


def _store(world: World) -> Any:
    """The store of a group that exists, as that of Ray Train, or one that all processes join now."""
    c10d: Any = dist
    if dist.is_initialized():
        return c10d.PrefixStore("abreast", c10d.distributed_c10d._get_default_store())
    address, port = address_of_rank_0(world)
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # that of torchrun
        return next(c10d.rendezvous(f"tcp://{address}:{port}", world.rank, world.size))[0]
    own, address = addresses(world, address)
    listening = _listening(own, port) if world.rank == 0 else None
    return c10d.TCPStore(address, port, world.size, world.rank == 0, _JOIN, master_listen_fd=listening)


def _listening(address: str, port: int) -> int:
    """A socket for the store of rank 0. torch itself would listen on every interface."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG).detach()
    except OSError as error:
        raise LaunchError(
            f"rank 0 cannot listen at {with_port(address, port)}: {error}",
            "check that this is an address of rank 0's host, and that its port is free",
        ) from error


class Unreachable(ConnectionError):
    """The store did not answer."""


class _Board:
    """See `Board`. Its own connection: that of the process group may wait for long."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = store.clone()
        self._store.set_timeout(_ANSWER)
        self._lock = threading.Lock()
        self._failure: RuntimeError | None = None
        self._rank, self._size = rank, size
        for prefix in (*PREFIXES, _GONE):
            self.write(f"{prefix}{rank}", b"")

    def write(self, key: str, value: bytes) -> None:
        self._ask("set", key, value)

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        # Not `wait`, which prints lines where its time is over.
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while not self._ask("check", list(keys)):
            if time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        return list(self._ask("multi_get", list(keys)))

    def look(self, prefix: str) -> dict[int, bytes]:
        keys = [f"{prefix}{rank}" for rank in range(self._size)]
        if not self._ask("check", keys):  # some processes have not begun
            return {}
        return {rank: value for rank, value in enumerate(self._ask("multi_get", keys)) if value}

    def erase(self, key: str) -> None:
        self._ask("delete_key", key)

    def close(self) -> None:
        """The store may be in rank 0, which ends last."""
        self.write(f"{_GONE}{self._rank}", b"1")
        deadline = time.monotonic() + _GONE_SECONDS
        while self._rank == 0 and len(self.look(_GONE)) < self._size and time.monotonic() < deadline:
            time.sleep(_LAST_PAUSE_SECONDS)

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Ask the store, unless it failed before: at each failure, torch prints the C++ frames."""
        with self._lock:
            if self._failure is not None:
                raise Unreachable("the store of rank 0 cannot be reached") from self._failure
            try:
                return getattr(self._store, what)(*arguments)
            except RuntimeError as error:
                self._failure = error
                raise
