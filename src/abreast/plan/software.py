"""The words of the model: kinds of links, ways to exchange gradients, and generations of software with their habits.

Names only; the numbers that go with them are in `constants.json`. Imports nothing of abreast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

# Between devices of a host. Of each, a constant is the share of its rate that an all-reduce sees: of the nominal one, of that
# of `measured` copies, and all of it where the `all-reduce` was measured.
LINKS = (
    "nvlink",
    "nvlink-assumed",
    "pcie-peer",
    "pcie-through-host",
    "pcie-shared-board",
    "pcie",
    "measured",
    "all-reduce",
)
NETWORKS = ("rdma", "tcp", "measured")
EXCHANGES = {
    "none": "each device trains for itself",
    "ring": "all-reduce over a ring of all devices",
    "tree": "all-reduce over a double binary tree",
    "hierarchical": "a ring in each host, then a ring of the hosts",
}


@dataclass(frozen=True)
class Software:
    """How a generation of software exchanges gradients: which constants are its own."""

    about: str
    exposed: str  # the share of the exchange that costs time although it overlaps
    launch: str  # time per tensor
    straggle: str  # how much a step lengthens per doubling of the devices
    first_bucket_bytes: float = math.inf  # where the first bucket is smaller than the others
    unanswered_bytes: float = math.inf  # what a host sends to the next before it waits for an answer, a round trip
    by_processor: bool = False  # the cores that compute also send, receive and add up the gradients


_DDP = Software(
    "PyTorch and JAX: buckets that are reduced while the backward pass goes on",
    *("ddp", "fused", "process"),
    first_bucket_bytes=2**20,
)
SOFTWARE = {
    "ddp": _DDP,
    "gloo": replace(
        _DDP, about="PyTorch on CPUs: the same over TCP, by gloo", unanswered_bytes=2**22, by_processor=True
    ),
    "fused": Software("Horovod, Fleet, MXNet's NCCL: fused tensors, overlapped", "fused", "fused", "process"),
    "unoverlapped": Software("the exchange after the backward pass", "unoverlapped", "fused", "process"),
    "towers-nccl": Software("TensorFlow 1.15 and 2, towers with NCCL in one graph", "towers-nccl", "towers", "process"),
}  # fmt: skip
