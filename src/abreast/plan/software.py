"""The words of the model: kinds of links, exchanges of gradients, and software.

Only names are here; their numbers are in `constants.json`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

# Links between the devices of a host. For each kind, a constant is the share of its rate that an all-reduce reaches: a share of
# the nominal rate, or of the rate of `measured` copies, or the full rate of a measured `all-reduce`.
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
    """A kind of software by its exchange of gradients; the words name its constants."""

    about: str
    exposed: str  # the share of a hidden exchange that still costs time
    launch: str  # time per tensor
    straggle: str  # growth of a step per doubling of the devices
    first_bucket_bytes: float = math.inf  # if it is smaller than the others
    unanswered_bytes: float = math.inf  # bytes that a host sends before it waits for an answer, one round trip
    by_processor: bool = False  # the cores that compute also send, receive and add up the gradients


_DDP = Software(
    "PyTorch and JAX: buckets that are reduced during the backward pass",
    *("ddp", "fused", "process"),
    first_bucket_bytes=2**20,
)
SOFTWARE = {
    "ddp": _DDP,
    "gloo": replace(
        _DDP, about="PyTorch on CPUs: the same over TCP, with gloo", unanswered_bytes=2**22, by_processor=True
    ),
    "fused": Software("Horovod, Fleet, MXNet's NCCL: fused tensors, overlapped", "fused", "fused", "process"),
    "unoverlapped": Software("an exchange after the backward pass", "unoverlapped", "fused", "process"),
    "towers-nccl": Software("TensorFlow 1.15 and 2, towers with NCCL in one graph", "towers-nccl", "towers", "process"),
}  # fmt: skip
