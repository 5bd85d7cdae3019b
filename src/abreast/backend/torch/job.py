"""A job of several PyTorch processes: how a process joins it, and torch's store as its board (`exchange.py`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from abreast.backend.exchange import Exchange
from abreast.backend.joining import join
from abreast.backend.torch.groups import Span
from abreast.hosts import Meeting
from abreast.hosts.checks import devices
from abreast.hosts.listener import listening
from abreast.launchers import World

_JOIN = timedelta(minutes=30)
_ANSWER = timedelta(seconds=10)  # limit for an answer of the store; it has the value already
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 1e-4, 2e-2


class Job(Exchange):
    """The messages of one job, sent over a store of torch on rank 0."""

    def __init__(self, world: World, num_devices: int) -> None:
        beside_store = True if dist.is_initialized() else None
        meeting = join(world, "PyTorch", torch.__version__, num_devices, beside_store=beside_store)
        self.num_devices = devices(meeting.hellos)
        store = _announced(meeting)
        super().__init__(meeting, lambda: self._joined(store()))

    def _joined(self, store: Any) -> _Board:
        self._store = store
        return _Board(store)

    def span(self) -> Span:
        """The ranks of this process and its workers among all ranks."""
        store = self._store
        while isinstance(store, dist.PrefixStore):  # type: ignore[attr-defined]
            store = store.underlying_store
        return Span(self.rank, tuple(self.num_devices), store.host, store.port, "abreast")


def _announced(meeting: Meeting) -> Callable[[], Any]:
    """A function that connects to the store of an existing group, such as Ray Train's, or to a new store.

    Rank 0 has the new store, at the address that the others reach; all ranks have exchanged its port.
    """
    c10d: Any = dist
    if dist.is_initialized():
        return lambda: c10d.PrefixStore("abreast", c10d.distributed_c10d._get_default_store())
    own, address = meeting.member, meeting.address_of_rank_0
    server, port = listening(address) if own.rank == 0 else (None, 0)  # torch itself would listen on every interface
    port = int(meeting.exchange(str(port).encode())[0])
    return lambda: c10d.TCPStore(address, port, own.size, own.rank == 0, _JOIN, master_listen_fd=server)


class Unreachable(ConnectionError):
    """The store did not answer."""


class _Board:
    """See `Board`. It has a connection of its own, because the process group's may be blocked for long."""

    def __init__(self, store: Any) -> None:
        self._store = store.clone()
        self._store.set_timeout(_ANSWER)
        self._lock = threading.Lock()
        self._failure: RuntimeError | None = None

    def write(self, key: str, value: bytes) -> None:
        self._ask("set", key, value)

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        # Not `wait`, which prints lines after a timeout.
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while not self._ask("check", list(keys)):
            if time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        return list(self._ask("multi_get", list(keys)))

    def erase(self, key: str) -> None:
        self._ask("delete_key", key)

    def close(self) -> None:
        pass  # the store may be in rank 0, which ends last

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
