"""Closed forms for the exchange of one buffer between devices, from bandwidth and latency; nothing else uses the links.

Every function takes numbers or arrays, and returns seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Number = Any  # a float, or an array of them


def ring_seconds(
    size_bytes: Number, num_devices: Number, bytes_per_second: Number, latency_seconds: Number = 0.0
) -> Number:
    """All-reduce over a ring: each device sends `2 (n - 1) / n` of the buffer in `2 (n - 1)` turns.

    Source: Patarasuk and Yuan, JPDC 69 (2009).
    """
    turns = 2 * (num_devices - 1)
    return turns / num_devices * size_bytes / bytes_per_second + turns * latency_seconds


def tree_seconds(
    size_bytes: Number, num_devices: Number, bytes_per_second: Number, latency_seconds: Number = 0.0
) -> Number:
    """All-reduce over a double binary tree: up and down `log2 n` levels, each link carrying the buffer once each way.

    Source: Sanders, Speck and Traeff, Parallel Computing 35 (2009), as in NCCL.
    """
    levels = np.ceil(np.log2(num_devices))
    return np.where(np.asarray(num_devices) > 1, 2 * size_bytes / bytes_per_second + 2 * levels * latency_seconds, 0.0)


def gather_seconds(
    size_bytes: Number, num_devices: Number, bytes_per_second: Number, latency_seconds: Number = 0.0
) -> Number:
    """All-gather of one buffer per device, which sparse gradients need: each device receives `n - 1` buffers."""
    return (num_devices - 1) * (size_bytes / bytes_per_second + latency_seconds)
