"""One training step, event by event: forward, backward bucket by bucket, and the exchange of each bucket over its links.

Only the slowest device is simulated: every bucket waits for it. Rates are usable rates, which `predict` takes from the constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from abreast.errors import DataError
from abreast.plan.collectives import gather_seconds, ring_seconds, tree_seconds
from abreast.plan.events import Engine

_DEVICE = "device 0"


@dataclass(frozen=True)
class Work:
    """The work of one device in a step. Buckets are in the order of the backward pass."""

    forward_seconds: float
    backward_seconds: Sequence[float]  # from the previous bucket until this one is ready
    bucket_bytes: Sequence[float]  # on the wire
    accumulation: int = 1
    overlap: bool = True
    encode_seconds: float = 0.0  # to compress one bucket

    def __post_init__(self) -> None:
        numbers = [self.forward_seconds, self.encode_seconds, *self.backward_seconds, *self.bucket_bytes]
        if any(not (math.isfinite(number) and number >= 0) for number in numbers):
            raise DataError("a time or a size is negative or not finite", "give seconds and bytes, zero or more")

    @property
    def compute_seconds(self) -> float:
        return self.accumulation * (self.forward_seconds + sum(self.backward_seconds))


@dataclass(frozen=True)
class Wires:
    """The links of an exchange, with usable rates in bytes per second. `Setup` has checked the user's numbers."""

    exchange: str
    num_devices: int
    num_hosts: int = 1
    device_bytes_per_second: float = 10e9
    device_latency_seconds: float = 0.0
    network_bytes_per_second: float = math.inf
    network_latency_seconds: float = 0.0
    slow_device_link: float = 1.0  # factor by which the slowest link is slower than the others
    slow_network_link: float = 1.0
    lost_share: float = 0.0  # the share of transfers that fail
    retry_seconds: float = 0.0  # time until a failed transfer is tried again
    unanswered_bytes: float = math.inf  # bytes between hosts until the sender waits for an answer
    sparse: bool = False  # all-gather of the values that each device chose (top-k)

    @property
    def devices_per_host(self) -> int:
        return self.num_devices // self.num_hosts

    @property
    def used(self) -> bool:
        return self.num_devices > 1 and self.exchange != "none"


@dataclass(frozen=True)
class Simulated:
    """The time of a step and of its computation, and the seconds that each resource was busy."""

    seconds: float
    compute_seconds: float
    busy: dict[str, float] = field(default_factory=dict)

    @property
    def exposed_seconds(self) -> float:
        return max(0.0, self.seconds - self.compute_seconds)


def simulate(work: Work, wires: Wires, slowdown: float = 1.0) -> Simulated:
    """One step of the slowest device, which computes `slowdown` times as long as usual; every bucket waits for it."""
    engine = Engine()
    before = work.compute_seconds - sum(work.backward_seconds)
    computed = engine.add(before * slowdown, _DEVICE)
    for seconds, size in zip(work.backward_seconds, work.bucket_bytes, strict=True):
        computed = engine.add(seconds * slowdown, _DEVICE, (computed,))
        if wires.used and work.overlap:
            computed = _exchange(engine, work, wires, size, computed)
    if wires.used and not work.overlap:
        for size in work.bucket_bytes:
            computed = _exchange(engine, work, wires, size, computed)
    outcome = engine.run()
    return Simulated(outcome.seconds, work.compute_seconds * slowdown, outcome.busy)


def exchange_seconds(work: Work, wires: Wires) -> float:
    """Time of all stages of all buckets in sequence, without overlap."""
    if not wires.used:
        return 0.0
    return sum(stage.seconds for size in work.bucket_bytes for stage in _stages(size, wires))


def _exchange(engine: Engine, work: Work, wires: Wires, size: float, computed: int) -> int:
    """Add the exchange of one bucket; return the last task of the device, which also compresses."""
    if work.encode_seconds:
        computed = engine.add(work.encode_seconds, _DEVICE, (computed,))
    last = computed
    for stage in _stages(size, wires):
        last = engine.add(stage.seconds, stage.resource, (last,))
    return computed


@dataclass(frozen=True)
class _Stage:
    seconds: float
    resource: str


def _stages(size: float, wires: Wires) -> list[_Stage]:
    """The stages of a bucket, one after the other."""
    inside, hosts = wires.devices_per_host, wires.num_hosts
    retry = 1 / (1 - wires.lost_share)
    waits = wires.retry_seconds * (retry - 1)
    rate = wires.device_bytes_per_second / wires.slow_device_link / retry
    network = wires.network_bytes_per_second / wires.slow_network_link / retry
    near, far = wires.device_latency_seconds, wires.network_latency_seconds
    if far and math.isfinite(wires.unanswered_bytes):
        network = 1 / (1 / network + 2 * far / wires.unanswered_bytes)
    if wires.sparse:
        slowest, latency = (rate, near) if hosts == 1 else (min(rate, network), far)
        return [_Stage(float(gather_seconds(size, wires.num_devices, slowest, latency)) + waits, "ring")]
    if wires.exchange in ("ring", "tree"):
        formula = ring_seconds if wires.exchange == "ring" else tree_seconds
        local = float(formula(size, inside, rate))
        between = float(formula(size, wires.num_devices, network)) if hosts > 1 else 0.0
        return [_Stage(max(local, between) + _latency(wires) + waits, wires.exchange)]
    ring = float(ring_seconds(size, inside, rate, near))
    if hosts == 1:
        return [_Stage(ring + waits, "device links")]
    between = float(ring_seconds(size, hosts, network, far)) + waits
    stages = [_Stage(ring / 2, "device links"), _Stage(between, "network"), _Stage(ring / 2, "device links")]
    return [stage for stage in stages if stage.seconds > 0]


def _latency(wires: Wires) -> float:
    """Latency of a ring's turns or a tree's levels: some cross hosts and wait for the network, the others stay in a host.

    NCCL uses the same count (src/graph/tuning.cc): `2 m` of `2 (n - 1)` turns cross hosts.
    """
    near, far, hosts = wires.device_latency_seconds, wires.network_latency_seconds, wires.num_hosts
    if wires.exchange == "tree":
        inside = math.ceil(math.log2(wires.devices_per_host))
        return 2 * inside * near + 2 * math.ceil(math.log2(hosts)) * far
    crossing = min(2 * hosts, 2 * (wires.num_devices - 1)) if hosts > 1 else 0
    return (2 * (wires.num_devices - 1) - crossing) * near + crossing * far
