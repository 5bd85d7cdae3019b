"""Process groups of the ranks: one for all, and one for the first `size` ranks of a host, or for parts of several hosts.

Not here: the exchanges of the ranks (`link.py`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from abreast.backend.torch import messages, own_group
from abreast.backend.torch.link import TorchLink

PATIENCE = timedelta(days=7)  # the job's supervisor, not the process group, finds ranks that hang
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@dataclass(frozen=True)
class Span:
    """The ranks of one process and its workers among all ranks. `counts`: the number of ranks of each process.

    `address` and `port` belong to torch's store, where these processes meet under `prefix`.
    """

    process: int
    counts: tuple[int, ...]
    address: str
    port: int
    prefix: str

    @property
    def first(self) -> int:
        return sum(self.counts[: self.process])

    @property
    def size(self) -> int:
        return sum(self.counts)

    @property
    def callers(self) -> list[int]:
        """The first rank of each process, which runs the user's script."""
        return [sum(self.counts[:process]) for process in range(len(self.counts))]

    def store(self, team: int) -> Any:
        store = dist.TCPStore(self.address, self.port, is_master=False, wait_for_workers=False)  # type: ignore[attr-defined]
        return dist.PrefixStore(f"{self.prefix}/team-{team}", store)  # type: ignore[attr-defined]


class Groups:
    """The process group of a job, and for every smaller placement a group of its first `size` ranks."""

    def __init__(self, rank: int, size: int, rendezvous: str, team: int, backend: str) -> None:
        self.rank = rank
        # A file, not a TCP store, which would listen on a port. gloo and NCCL bind to loopback, because the ranks share a host.
        for variable in _INTERFACES:
            os.environ.setdefault(variable, "lo")
        own_group.note()
        store = dist.PrefixStore(f"team-{team}", dist.FileStore(rendezvous))  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        self._links = {size: TorchLink(dist.group.WORLD, rank, size)}

    def has(self, size: int) -> bool:
        return size in self._links

    def open(self, size: int) -> None:
        """Make the group of the first `size` ranks. All ranks of the job call this, for the same sizes in the same order.

        Ranks outside the group call it too: torch names a group by the number of groups before it, and ranks that disagree
        about the name wait for ever.
        """
        group = dist.new_group(list(range(size)), timeout=PATIENCE)
        self._links[size] = TorchLink(group, self.rank, size)

    def link(self, size: int) -> TorchLink:
        return self._links[size]

    def give(self, tensors: Sequence[torch.Tensor], size: int) -> None:
        """Copy the caller's tensors to the first `size` ranks."""
        messages.broadcast(tensors, self.link(size).group)

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


class SpanGroups:
    """The groups of the ranks of several processes: all ranks, the processes without workers, and one process with its workers.

    A group that other code made, such as Ray Train, is used unchanged. It has one rank per process.
    """

    def __init__(self, rank: int, span: Span, team: int, backend: str) -> None:
        self.rank, self._span = rank, span
        self._is_own = not dist.is_initialized()
        if self._is_own:
            own_group.note()
            dist.init_process_group(backend, store=span.store(team), rank=rank, world_size=span.size, timeout=PATIENCE)
        self._link = TorchLink(dist.group.WORLD, rank, span.size)
        # The process's own group comes first: torch names a group by the number of groups that this rank has.
        self._team = self._of_process() if span.counts[span.process] > 1 else None
        is_all = span.callers == [*range(span.size)]
        self._callers = dist.group.WORLD if is_all else dist.new_group(span.callers, timeout=PATIENCE)

    def _of_process(self) -> Any:
        own = range(self._span.first, self._span.first + self._span.counts[self._span.process])
        with _on_loopback():
            return dist.new_group([*own], timeout=PATIENCE, use_local_synchronization=True)

    def has(self, size: int) -> bool:
        return True

    def open(self, size: int) -> None:
        raise AssertionError("every model is on all ranks")

    def link(self, size: int) -> TorchLink:
        return self._link

    def give(self, tensors: Sequence[torch.Tensor], size: int) -> None:
        """Copy the tensors of this host's caller to its workers."""
        if self._team is not None:
            messages.broadcast(tensors, self._team, self._span.first)

    def give_to_callers(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the tensors of rank 0 to the first rank of each process."""
        messages.broadcast(tensors, self._callers)

    def close(self) -> None:
        if self._is_own and dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Inside, new groups of gloo and NCCL use the loopback."""
    kept = {name: os.environ.get(name) for name in _INTERFACES}
    os.environ.update(dict.fromkeys(_INTERFACES, "lo"))
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@functools.cache
def rendezvous_file() -> int:
    """A file without a name, which the workers inherit: nothing listens, and nothing remains after kill -9.

    It is never closed: torch keeps a store while anything refers to its process group, and reopens the file.
    """
    return os.memfd_create("abreast-rendezvous")
