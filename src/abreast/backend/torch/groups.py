"""Process groups of the ranks of one job: one for all ranks, and one for the first `size` of them.

Not here: what the ranks exchange (`link.py`). Imports torch.
"""

from __future__ import annotations

import functools
import os
from datetime import timedelta

import torch.distributed as dist

from abreast.backend.torch import batch_norm
from abreast.backend.torch.link import TorchLink

PATIENCE = timedelta(days=7)  # the job's supervisor, not the process group, decides who hangs


class Groups:
    """The process group of a job, and one for its first `size` ranks for every smaller placement."""

    def __init__(self, rank: int, size: int, rendezvous: str, team: int, backend: str) -> None:
        self.rank = rank
        # A file, not a TCP store, which would listen. gloo and NCCL bind to loopback: the ranks share a host.
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, "lo")
        batch_norm.mark_group_as_ours()
        store = dist.PrefixStore(f"team-{team}", dist.FileStore(rendezvous))  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        self._links = {size: TorchLink(dist.group.WORLD, rank, size)}

    def has(self, size: int) -> bool:
        return size in self._links

    def open(self, size: int) -> None:
        """Make the group of the first `size` ranks. All ranks of the job call it, for the same sizes in the same order.

        Also those that do not belong: torch names a group by how many it has seen, and ranks that disagree wait for ever.
        """
        group = dist.new_group(list(range(size)), timeout=PATIENCE)
        self._links[size] = TorchLink(group, self.rank, size)

    def link(self, size: int) -> TorchLink:
        return self._links[size]


@functools.cache
def rendezvous_file() -> int:
    """A file without a name, which the workers inherit: nothing listens, and nothing stays after kill -9.

    It stays open for good: torch keeps a store for as long as anything refers to its process group, and reopens the file.
    """
    return os.memfd_create("abreast-rendezvous")
