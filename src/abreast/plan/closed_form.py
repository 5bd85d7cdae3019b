"""Where the time of a step goes on several devices, as formulas: the calibrated model in one page.

    step = compute x (1 + straggling) + exposed exchange + launches + update, or the input pipeline where that is slower

`simulate` computes the exchange event by event; this is what it must agree with where the formulas hold. Imports
`collectives`, `constants` and `scenario`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abreast.plan.collectives import (
    ring_seconds,
    server_in_host_seconds,
    server_on_device_seconds,
    sharded_servers_seconds,
    tree_seconds,
)
from abreast.plan.constants import Constants
from abreast.plan.scenario import Numbers, Scenarios
from abreast.plan.software import SOFTWARE

BACKWARD_SHARE = 2 / 3  # of a step: two of three matrix products per layer
_BYTES_PER_UPDATE = 16  # a parameter, its gradient and two moments, in float32
# A step that accumulates saves the update and adds its gradient to the sum (two floats read, one written), and Keras passes over
# its accumulators (one read, one written). That is counted, not fitted.
_BYTES_PER_ACCUMULATION = 20
_BUCKET_PASSES = 2  # each gradient is read, and written into its bucket
_INPUT_POWER = 8  # how sharply the slower of computing and reading wins


@dataclass(frozen=True)
class Breakdown:
    """Seconds per optimizer step, for many scenarios at once."""

    compute: Numbers  # what one device alone would need for the same rows, update left out
    straggling: Numbers
    exchange: Numbers  # on the links, hidden or not
    exposed: Numbers  # the part of the exchange that lengthens the step
    launches: Numbers
    update: Numbers
    input: Numbers  # what reading adds
    step: Numbers
    alone: Numbers  # the step of one device that holds all rows of its share, for the efficiency

    @property
    def efficiency(self) -> Numbers:
        return self.alone / self.step


def breakdown(many: Scenarios, constants: Constants) -> Breakdown:
    devices = many.number("num_devices")
    doublings = np.log2(devices)
    update = _update_seconds(many, constants)
    micro_step = many.number("step_seconds") / many.number("step_accumulation") - update / many.number(
        "step_accumulation"
    )
    one = micro_step * many.number("batch_share") + np.where(
        many.number("batch_share") < 1, constants["slicing.step"], 0.0
    )
    accumulating = _accumulation_seconds(many)
    compute = one * many.number("accumulation") + accumulating
    exchange = exchange_seconds(many, constants)
    window = one * many.look_up("software", lambda name: 1.0 if SOFTWARE[name].window == "step" else BACKWARD_SHARE)
    share = exposed_share(many, constants, exchange)
    exposed = exposed_seconds(exchange, window, share) + bucket_seconds(many)
    straggling = compute * _straggling(many, constants, doublings)
    launches = _launch_seconds(many, constants, doublings)
    alone = (micro_step * many.number("accumulation") + update) * many.number("batch_share") + accumulating
    busy = compute + straggling + exposed + launches + update
    step = (busy**_INPUT_POWER + _input_seconds(many, constants) ** _INPUT_POWER) ** (1 / _INPUT_POWER)
    return Breakdown(compute, straggling, exchange, exposed, launches, update, step - busy, step, alone)


def exposed_seconds(exchange: Numbers, window: Numbers, exposed_share: Numbers) -> Numbers:
    """What an exchange adds to a step: what does not fit behind the window, and a share of what does.

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
    ring = ring_seconds(size, in_host, link)
    nvlink = many.among("device_link", "nvlink", "nvlink-assumed")
    host_link = np.where(nvlink, constants["rate.host_link"], link)
    serial = constants["serial.ps"]
    local = np.select(
        [many.among("exchange", name) for name in ("none", "ps-cpu", "ps-gpu", "ps-sharded", "tree")],
        [
            0 * size,
            server_in_host_seconds(size, in_host, host_link, constants["rate.host_memory"]) * (in_host > 1),
            server_on_device_seconds(size, in_host, link) * serial,
            sharded_servers_seconds(size, in_host, link),
            tree_seconds(size, in_host, link),
        ],
        ring,
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
    # A ring over all devices, and servers that push as soon as a tensor is there, use both kinds of links at once.
    at_once = many.among("exchange", "ring", "tree") | many.among("software", "priority")
    both = np.where(at_once, np.maximum(local, between), local + between)
    total: Numbers = np.where(hosts > 1, both, local)
    return total


def device_link_rate(many: Scenarios, constants: Constants) -> Numbers:
    share = many.look_up("device_link", lambda name: constants[f"usable.{name}"])
    rate: Numbers = share * many.number("device_bytes_per_second")
    return rate


def network_rate(many: Scenarios, constants: Constants) -> Numbers:
    """Of a network that somebody measured an exchange sees all: it is what one TCP connection carries, as those of a ring.

    A processor that does the work itself sends no faster to another host than to the process beside it.
    """
    share = many.look_up("network", lambda name: 1.0 if name == "measured" else constants[f"usable.{name}"])
    rate = share * many.number("network_bytes_per_second")
    rate = np.where(many.among("network", "tcp"), np.minimum(rate, constants["rate.tcp_most"]), rate)
    rate = np.where(many.among("software", "servers"), rate * constants["usable.grpc"], rate)
    usable: Numbers = np.where(many.says("by_processor"), np.minimum(rate, device_link_rate(many, constants)), rate)
    return usable


def _update_seconds(many: Scenarios, constants: Constants) -> Numbers:
    """The optimizer's own time; never more than most of a step that is known to hold it."""
    seconds = constants["passes.update"] * _BYTES_PER_UPDATE * many.number("num_parameters")
    seconds = seconds / many.number("memory_bytes_per_second")
    most: Numbers = np.minimum(seconds, 0.5 * many.number("step_seconds"))
    return most


def _accumulation_seconds(many: Scenarios) -> Numbers:
    """What adding up the gradients of several steps takes; nothing where the known step does so already."""
    adds = (many.number("accumulation") > 1) & (many.number("step_accumulation") == 1)
    passed = _BYTES_PER_ACCUMULATION * many.number("num_parameters") * many.number("accumulation")
    seconds: Numbers = np.where(adds, passed / many.number("memory_bytes_per_second"), 0.0)
    return seconds


def bucket_seconds(many: Scenarios) -> Numbers:
    """What putting gradients into buckets takes of a processor's step. Of GPUs it is in the constants that were fitted."""
    copies = many.says("by_processor") & (many.number("num_devices") > 1) & ~many.among("exchange", "none")
    passed = _BUCKET_PASSES * many.number("gradient_bytes")
    seconds: Numbers = np.where(copies, passed / many.number("memory_bytes_per_second"), 0.0)
    return seconds


def exposed_share(many: Scenarios, constants: Constants, exchange: Numbers) -> Numbers:
    """The part of a hidden exchange of so many seconds that costs time all the same.

    NCCL's kernels hold their part of a GPU while they wait for the network. gloo's threads sleep while they wait, and take the
    cores from the computation while they send, receive and add: as long as the same exchange takes inside of a host, where
    there is nothing to wait for.
    """
    share = many.look_up("software", lambda name: constants[f"exposed.{SOFTWARE[name].exposed}"])
    pulls = many.among("exchange", "ps-cpu") & many.among("software", "towers")
    limited = np.minimum(np.where(pulls, constants["exposed.towers-ps-cpu"], share), 1.0)
    working = ring_seconds(many.number("gradient_bytes"), many.number("num_devices"), device_link_rate(many, constants))
    of_exchange = np.minimum(working / np.where(exchange > 0, exchange, np.inf), 1.0)
    overlaps = many.says("by_processor") & ~many.among("software", "unoverlapped")
    found: Numbers = np.where(overlaps, of_exchange, limited)
    return found


def _straggling(many: Scenarios, constants: Constants, doublings: Numbers) -> Numbers:
    """By how much the slowest replica's computation is longer than that of one device alone."""
    share = many.look_up("software", lambda name: constants[f"straggle.{SOFTWARE[name].straggle}"]) * doublings
    share = share + np.where(many.says("real_data"), constants["straggle.real_data"], 0.0) * doublings
    share = share + np.where(many.says("ragged"), constants["straggle.ragged"], 0.0) * doublings
    share = share + np.where(many.says("slow_half_precision"), constants["straggle.half_without_xla"], 0.0) * doublings
    share = share + constants["straggle.hosts"] * np.log2(many.number("num_hosts"))
    total: Numbers = np.where(
        doublings > 0, share + np.where(many.says("shares_board"), constants["slower.shared_board"], 0.0), 0.0
    )
    return total


def _launch_seconds(many: Scenarios, constants: Constants, doublings: Numbers) -> Numbers:
    per_tensor = many.look_up("software", lambda name: constants[f"launch.{SOFTWARE[name].launch}"])
    pulls = many.among("exchange", "ps-cpu") & many.among("software", "towers")
    per_tensor = np.where(pulls, 0.0, per_tensor)  # copies between device and host, not operations of the device
    between = constants["launch.network"] * np.log2(many.number("num_hosts"))
    seconds = many.number("num_tensors") * (per_tensor * doublings + between)
    sliced = many.among("software", "slices") & (doublings > 0)
    total: Numbers = seconds + np.where(sliced, constants["slicing.device"] * many.number("num_devices"), 0.0)
    return total


def _input_seconds(many: Scenarios, constants: Constants) -> Numbers:
    per_row = np.where(many.says("small_rows"), constants["read.small_row"], constants["read.image"])
    seconds: Numbers = many.number("host_rows") * per_row
    return seconds
