"""Process groups of the ranks of one job: one for all ranks, and one for the first `size` ranks.

Not here: what the ranks exchange (`link.py`).
"""

from __future__ import annotations

import functools
import os
from datetime import timedelta

import torch.distributed as dist

from abreast.backend.torch import own_group
from abreast.backend.torch.link import TorchLink

PATIENCE = timedelta(days=7)  # the job's supervisor, not the process group, finds ranks that hang


class Groups:
    """The process group of a job, and for every smaller placement a group of its first `size` ranks."""

    def __init__(self, rank: int, size: int, rendezvous: str, team: int, backend: str) -> None:
        self.rank = rank
        # A file, and not a TCP store, which would listen on a port. gloo and NCCL bind to loopback: the ranks share a host.
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
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


@functools.cache
def rendezvous_file() -> int:
    """A file without a name, which the workers inherit: nothing listens, and nothing remains after kill -9.

    It is never closed: torch keeps a store while anything refers to its process group, and reopens the file.
    """
    return os.memfd_create("abreast-rendezvous")
