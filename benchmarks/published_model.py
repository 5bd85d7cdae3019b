"""The scaling model in closed form, for published systems. `plan_fit.py` fits it, `plan_accuracy.py` scores it.

    step = compute x (1 + straggling) + exposed exchange + launches + update, or the input pipeline if that is slower

The parts without the exchange come from `abreast.plan.terms`. The exchange is a formula here; `abreast plan` simulates it,
and a test compares the two. Parameter servers, towers of TensorFlow 1, BytePS and the sliced batches of Keras 2 are only here,
since abreast does not train with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from abreast.plan import software as planned
from abreast.plan.collectives import Number, ring_seconds, tree_seconds
from abreast.plan.constants import Constants
from abreast.plan.scenario import Numbers, Scenario, Scenarios
from abreast.plan.software import Software
from abreast.plan.terms import (
    BACKWARD_SHARE,
    bucket_seconds,
    device_link_rate,
    exposed_share,
    network_rate,
    terms,
)

_INPUT_POWER = 8  # sharpness of the maximum of computing and reading

EXCHANGES = {
    **planned.EXCHANGES,
    "ps-cpu": "a parameter server in the host's memory",
    "ps-gpu": "a parameter server on one device",
    "ps-sharded": "parameters divided among all devices, each serving its part",
    "ps-hosts": "every host serves its part of the parameters to the others",
}
SOFTWARE = {
    **planned.SOFTWARE,
    "priority": Software("BytePS, ByteScheduler: overlapped with the next step too", "priority", "fused", "process"),
    "threads": Software("one process, a thread per device, parameters broadcast at each step", "fused", "fused", "threads"),
    "servers": Software("TensorFlow's parameter servers over gRPC", "servers", "fused", "process"),
    "towers": Software("TensorFlow 1.0 to 1.4, a tower per device in one graph", "towers", "towers", "process"),
    "towers-ps-cpu": Software("the same, parameters in host memory", "towers-ps-cpu", "towers", "process"),
    "slices": Software("Keras 2 with sliced batches in one graph", "unoverlapped", "towers", "process"),
}  # fmt: skip
# Their exchange overlaps with the whole step, not only with the backward pass.
_WHOLE_STEP = ("priority", "servers", "towers", "towers-ps-cpu")


@dataclass(frozen=True)
class PublishedScenario(Scenario):
    """A published row in numbers: a scenario, and the habits of old software."""

    real_data: bool = False
    host_rows: float = 0.0  # rows that one host reads in a step, for the old input pipeline of TensorFlow 1
    small_rows: bool = False  # rows of some kilobytes, as CIFAR-10
    slow_half_precision: bool = False  # a TensorFlow graph of towers in half precision, without XLA, with batch norms

    exchanges: ClassVar[Mapping[str, str]] = EXCHANGES
    softwares: ClassVar[Mapping[str, Software]] = SOFTWARE


@dataclass(frozen=True)
class Breakdown:
    """Seconds per optimizer step, for many scenarios at once."""

    compute: Numbers  # of one device with the same rows, without the update
    straggling: Numbers
    exchange: Numbers  # on the links, hidden or not
    exposed: Numbers  # the part of the exchange that lengthens the step
    launches: Numbers
    update: Numbers
    input: Numbers  # time that reading adds
    step: Numbers
    alone: Numbers  # the step of one device that trains alone

    @property
    def efficiency(self) -> Numbers:
        return self.alone / self.step


def breakdown(many: Scenarios, constants: Constants) -> Breakdown:
    parts = terms(many, constants)
    exchange = exchange_seconds(many, constants)
    window = parts.micro_step * np.where(many.among("software", *_WHOLE_STEP), 1.0, BACKWARD_SHARE)
    exposed = exposed_seconds(exchange, window, exposed_share(many, constants, exchange)) + bucket_seconds(many)
    straggling = parts.straggling + parts.compute * _old_straggling(many, constants)
    launches = parts.launches + _old_launches(many, constants)
    busy = parts.compute + straggling + exposed + launches + parts.update
    step = (busy**_INPUT_POWER + _input_seconds(many, constants) ** _INPUT_POWER) ** (1 / _INPUT_POWER)
    return Breakdown(
        parts.compute, straggling, exchange, exposed, launches, parts.update, step - busy, step, parts.alone
    )


def exposed_seconds(exchange: Numbers, window: Numbers, exposed_share: Numbers) -> Numbers:
    """The time that an exchange adds to a step: the part that does not fit into the window, and a share of the part that does.

    The share is for copies and reductions that take cores and memory from the computation, and for the last bucket.
    """
    exposed: Numbers = exchange - (1 - exposed_share) * np.minimum(exchange, window)
    return exposed


def exchange_seconds(many: Scenarios, constants: Constants) -> Numbers:
    """Time on the links of one exchange, in the host and between hosts."""
    size, devices, hosts = many.number("gradient_bytes"), many.number("num_devices"), many.number("num_hosts")
    in_host = devices / hosts
    link = device_link_rate(many, constants)
    network = network_rate(many, constants)
    network = np.where(many.among("software", "servers"), network * constants["usable.grpc"], network)
    nvlink = many.among("device_link", "nvlink", "nvlink-assumed")
    host_link = np.where(nvlink, constants["rate.host_link"], link)  # NVLink does not lead to the host
    local = np.select(
        [many.among("exchange", name) for name in ("none", "ps-cpu", "ps-gpu", "ps-sharded", "tree")],
        [
            0 * size,
            server_in_host_seconds(size, in_host, host_link, constants["rate.host_memory"]) * (in_host > 1),
            server_on_device_seconds(size, in_host, link) * constants["serial.ps"],
            sharded_servers_seconds(size, in_host, link),
            tree_seconds(size, in_host, link),
        ],
        ring_seconds(size, in_host, link),
    )
    between = np.select(
        [many.among("exchange", name) for name in ("none", "ring", "tree", "hierarchical")],
        [
            0 * size,
            ring_seconds(size, devices, network),
            tree_seconds(size, hosts, network),
            ring_seconds(size, hosts, network),
        ],
        2 * size / network,
    )
    # A ring over all devices, and servers that push each tensor as soon as it is ready, use both kinds of links at once.
    at_once = many.among("exchange", "ring", "tree") | many.among("software", "priority")
    both = np.where(at_once, np.maximum(local, between), local + between)
    total: Numbers = np.where(hosts > 1, both, local)
    return total


def server_on_device_seconds(size_bytes: Number, num_devices: Number, bytes_per_second: Number) -> Number:
    """One device holds the parameters. Each other device sends and fetches the whole buffer over that device's one link."""
    return 2 * (num_devices - 1) * size_bytes / bytes_per_second


def server_in_host_seconds(
    size_bytes: Number, num_devices: Number, bytes_per_second: Number, memory_bytes_per_second: Number
) -> Number:
    """The host holds the parameters. Every device uses its own link; the host's memory adds up the gradients of all."""
    return 2 * size_bytes / bytes_per_second + num_devices * size_bytes / memory_bytes_per_second


def sharded_servers_seconds(size_bytes: Number, num_devices: Number, bytes_per_second: Number) -> Number:
    """Every device serves `1 / n` of the parameters: it sends and receives `(n - 1) / n` of the buffer, twice."""
    return 2 * (num_devices - 1) / num_devices * size_bytes / bytes_per_second


def _old_straggling(many: Scenarios, constants: Constants) -> Numbers:
    """Straggling of published rows only, as a share of the computation."""
    per_doubling = np.where(many.says("real_data"), constants["straggle.real_data"], 0.0) + np.where(
        many.says("slow_half_precision"), constants["straggle.half_without_xla"], 0.0
    )
    share: Numbers = per_doubling * np.log2(many.number("num_devices"))
    return share


def _old_launches(many: Scenarios, constants: Constants) -> Numbers:
    """Launches of old software only, added to those of the same software in `abreast.plan`."""
    devices = many.number("num_devices")
    # Parameters in host memory are copied between device and host; those copies are no operations of the device.
    copied = many.number("num_tensors") * constants["launch.towers"] * np.log2(devices)
    seconds: Numbers = np.where(
        many.among("software", "slices") & (devices > 1), constants["slicing.device"] * devices, 0.0
    ) - np.where(many.among("software", "towers-ps-cpu"), copied, 0.0)
    return seconds


def _input_seconds(many: Scenarios, constants: Constants) -> Numbers:
    per_row = np.where(many.says("small_rows"), constants["read.small_row"], constants["read.image"])
    seconds: Numbers = many.number("host_rows") * per_row
    return seconds
