"""The terms of the scaling model without the exchange, and the rates of the links, for many scenarios at once.

The constants are fitted (`constants`). The exchange itself is simulated (`simulate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abreast.plan.collectives import ring_seconds
from abreast.plan.constants import Constants
from abreast.plan.scenario import Numbers, Scenarios

BACKWARD_SHARE = 2 / 3  # of a step: two of the three matrix products of a layer
_BYTES_PER_UPDATE = 16  # a parameter, its gradient and two moments, in float32
# A step that accumulates adds its gradient to the sum (two floats read, one written), and Keras passes over its accumulators (one
# read, one written). This is counted, not fitted.
_BYTES_PER_ACCUMULATION = 20
_BUCKET_PASSES = 2  # each gradient is read, and written into its bucket


@dataclass(frozen=True)
class Terms:
    """Seconds per optimizer step."""

    micro_step: Numbers  # one micro-step of one device, without the update
    compute: Numbers  # all micro-steps of one device, without the update
    straggling: Numbers  # additional time of the slowest replica
    launches: Numbers
    update: Numbers
    alone: Numbers  # the whole step of one device that trains alone; the efficiency compares with it


def terms(many: Scenarios, constants: Constants) -> Terms:
    update = _update_seconds(many, constants)
    share, accumulation = many.number("batch_share"), many.number("accumulation")
    whole = (many.number("step_seconds") - update) / many.number("step_accumulation")
    micro_step = whole * share + np.where(share < 1, constants["slicing.step"], 0.0)
    accumulating = _accumulation_seconds(many)
    compute = micro_step * accumulation + accumulating
    return Terms(
        micro_step,
        compute,
        compute * straggling_share(many, constants),
        launch_seconds(many, constants),
        update,
        (whole * accumulation + update) * share + accumulating,
    )


def device_link_rate(many: Scenarios, constants: Constants) -> Numbers:
    """Usable bytes per second between two devices of a host."""
    share = many.look_up("device_link", lambda name: constants[f"usable.{name}"])
    rate: Numbers = share * many.number("device_bytes_per_second")
    return rate


def network_rate(many: Scenarios, constants: Constants) -> Numbers:
    """Usable bytes per second between two hosts.

    A measured rate is used in full: like a ring, it was measured over one TCP connection. A processor that exchanges gradients
    itself sends no faster to another host than to a process of its own host. Without overlap it also waits for the network before
    it adds up a tensor, so both times count.
    """
    share = many.look_up("network", lambda name: 1.0 if name == "measured" else constants[f"usable.{name}"])
    rate = share * many.number("network_bytes_per_second")
    rate = np.where(many.among("network", "tcp"), np.minimum(rate, constants["rate.tcp_most"]), rate)
    own_rate = device_link_rate(many, constants)
    in_turn = rate * own_rate / (rate + own_rate)
    of_processor = np.where(many.among("software", "unoverlapped"), in_turn, np.minimum(rate, own_rate))
    usable: Numbers = np.where(many.says("by_processor"), of_processor, rate)
    return usable


def bucket_seconds(many: Scenarios) -> Numbers:
    """Time that a processor needs to copy gradients into buckets. For GPUs, the fitted constants contain it."""
    copies = many.says("by_processor") & (many.number("num_devices") > 1) & ~many.among("exchange", "none")
    passed = _BUCKET_PASSES * many.number("gradient_bytes")
    seconds: Numbers = np.where(copies, passed / many.number("memory_bytes_per_second"), 0.0)
    return seconds


def exposed_share(many: Scenarios, constants: Constants, exchange: Numbers) -> Numbers:
    """The share of a hidden exchange that still lengthens the step; `exchange` is its length in seconds.

    NCCL's kernels occupy their part of a GPU while they wait for the network. The threads of gloo sleep while they wait. They
    take the cores from the computation only while they send, receive and add: as long as the same exchange takes within one
    host, where there is no wait.
    """
    share = np.minimum(many.of_software(lambda software: constants[f"exposed.{software.exposed}"]), 1.0)
    working = ring_seconds(many.number("gradient_bytes"), many.number("num_devices"), device_link_rate(many, constants))
    of_exchange = np.minimum(working / np.where(exchange > 0, exchange, np.inf), 1.0)
    overlaps = many.says("by_processor") & ~many.among("software", "unoverlapped")
    found: Numbers = np.where(overlaps, of_exchange, share)
    return found


def straggling_share(many: Scenarios, constants: Constants) -> Numbers:
    """The additional computing time of the slowest replica, as a share of one device's time alone."""
    doublings = np.log2(many.number("num_devices"))
    share = many.of_software(lambda software: constants[f"straggle.{software.straggle}"]) * doublings
    share = share + np.where(many.says("ragged"), constants["straggle.ragged"], 0.0) * doublings
    share = share + constants["straggle.hosts"] * np.log2(many.number("num_hosts"))
    board = np.where(many.says("shares_board"), constants["slower.shared_board"], 0.0)
    total: Numbers = np.where(doublings > 0, share + board, 0.0)
    return total


def launch_seconds(many: Scenarios, constants: Constants) -> Numbers:
    per_tensor = many.of_software(lambda software: constants[f"launch.{software.launch}"])
    per_tensor = per_tensor * np.log2(many.number("num_devices"))
    between = constants["launch.network"] * np.log2(many.number("num_hosts"))
    seconds: Numbers = many.number("num_tensors") * (per_tensor + between)
    return seconds


def _update_seconds(many: Scenarios, constants: Constants) -> Numbers:
    """The optimizer's own time: at most half of a step that is known to contain it."""
    seconds = constants["passes.update"] * _BYTES_PER_UPDATE * many.number("num_parameters")
    seconds = seconds / many.number("memory_bytes_per_second")
    most: Numbers = np.minimum(seconds, 0.5 * many.number("step_seconds"))
    return most


def _accumulation_seconds(many: Scenarios) -> Numbers:
    """Time to add up the gradients of several micro-steps; zero if the known step already contains it."""
    adds = (many.number("accumulation") > 1) & (many.number("step_accumulation") == 1)
    passed = _BYTES_PER_ACCUMULATION * many.number("num_parameters") * many.number("accumulation")
    seconds: Numbers = np.where(adds, passed / many.number("memory_bytes_per_second"), 0.0)
    return seconds
