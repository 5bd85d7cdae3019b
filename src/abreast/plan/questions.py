"""Answers from predictions: the number of devices that is worth it, the most useful change, and the cost of an epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from abreast.errors import AbreastError, DataError
from abreast.plan.gradients import parse_format
from abreast.plan.predict import Prediction, predict
from abreast.plan.price import Price
from abreast.plan.setup import Setup

_WORTH = 0.5  # the share of its own throughput that an added device must contribute


@dataclass(frozen=True)
class Help:
    """A change, and the throughput with it as a multiple of the throughput without."""

    change: str
    gain: float


@dataclass(frozen=True)
class Cost:
    """The cost of one pass over the data, in `currency` if one was given.

    `low` and `high` are the ends of the 80 % interval of `price`.
    """

    num_devices: int
    hours: float
    price: float
    low: float
    high: float
    currency: str | None = None


def worth(found: Sequence[Prediction]) -> Prediction:
    """The prediction for the most devices at which each added group contributes at least half of its own throughput."""
    best = found[0]
    for before, after in pairwise(found):
        gained = after.rows_per_second - before.rows_per_second
        alone = found[0].rows_per_second / found[0].num_devices
        if after.abstains or gained < _WORTH * alone * (after.num_devices - before.num_devices):
            break
        best = after
    return best


def helps(setup: Setup, point: Prediction) -> list[Help]:
    """Changes in the order of their gain, without gains below 1 %."""
    tried = []
    for change, other in _changes(setup):
        try:
            after = predict(other, point.num_devices, point.num_hosts)
        except AbreastError:  # this set-up does not allow the change
            continue
        tried.append(Help(change, after.rows_per_second / point.rows_per_second))
    return sorted((each for each in tried if each.gain >= 1.01), key=lambda each: -each.gain)


def _changes(setup: Setup) -> list[tuple[str, Setup]]:
    """Changes that a user can make. A step with twice the batch is assumed to take twice the time."""
    doubled = replace(setup, rows=2 * setup.rows, step=replace(setup.step, seconds=2 * setup.step.seconds))
    more = 4 * setup.accumulation
    changes = [
        ("twice the batch per device", doubled),
        (f"accumulation of {more} steps", replace(setup, accumulation=more)),
    ]
    if setup.gradients.name == "fp32":
        changes.append(("gradients in bf16", replace(setup, gradients=parse_format("bf16"))))
    if setup.machine.device_link.kind not in ("nvlink", "nvlink-assumed"):
        link = replace(setup.machine.device_link, kind="nvlink", bytes_per_second=150e9)
        faster = replace(setup.machine, device_link=link)
        changes.append(("NVLink of 150 GB/s between devices", setup.on(faster)))
    network = setup.machine.network
    if network is not None and network.bytes_per_second < 50e9:
        faster = replace(setup.machine, network=replace(network, kind="rdma", bytes_per_second=50e9))
        changes.append(("a network of 400 Gb/s with RDMA", setup.on(faster)))
    if not setup.overlap or setup.software == "unoverlapped":
        changes.append(("an exchange that overlaps", replace(setup, overlap=True, software="ddp")))
    if setup.input_rows_per_second is not None:
        changes.append(
            ("an input pipeline twice as fast", replace(setup, input_rows_per_second=2 * setup.input_rows_per_second))
        )
    if not setup.staged:
        changes.append(("staged feeding", replace(setup, staged=True)))
    if setup.one_process:
        changes.append(("a process per device", replace(setup, one_process=False)))
    return changes


def cost(point: Prediction, rows_per_epoch: float, per_device_hour: Price) -> Cost:
    if not 0 < rows_per_epoch < math.inf:
        raise DataError(f"--epoch-rows {rows_per_epoch:g}", "give a number above zero")
    hours = rows_per_epoch / point.rows_per_second / 3600
    price = hours * point.num_devices * per_device_hour.amount
    low, high = (price * point.rows_per_second / rate for rate in (point.high, point.low))
    return Cost(point.num_devices, hours, price, low, high, per_device_hour.currency)
