"""The prediction for a number of devices: throughput, efficiency, interval, and the parts of a step.

The exchange is simulated bucket by bucket (`simulate`); the other parts are formulas with fitted constants (`terms`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from abreast.bench.cases import doubling
from abreast.plan.constants import Constants, shipped
from abreast.plan.interval import interval
from abreast.plan.scenario import Scenario, Scenarios
from abreast.plan.setup import Setup
from abreast.plan.simulate import Wires, Work, exchange_seconds, simulate
from abreast.plan.software import SOFTWARE
from abreast.plan.terms import (
    BACKWARD_SHARE,
    bucket_seconds,
    device_link_rate,
    exposed_share,
    network_rate,
    terms,
)

_DISPATCH_SECONDS = 1e-3  # per device, if one process starts every device's step
_RETRY_SECONDS = 0.2  # TCP's shortest time before it retransmits
_WIDEST = 6.0  # highest over lowest; a prediction with a wider range is useless


@dataclass(frozen=True)
class Prediction:
    """A prediction. Rates are rows per second of all devices; `parts` are seconds that add up to `step_seconds`.

    `bottleneck` is the longest part. `efficiency` is the rate over the rate of as many devices that each train alone
    with the same settings. `busy` has the seconds of each simulated resource.
    """

    num_devices: int
    num_hosts: int
    rows_per_second: float
    low: float
    high: float
    efficiency: float
    step_seconds: float
    parts: dict[str, float]
    bottleneck: str
    abstains: str = ""
    busy: dict[str, float] | None = None


def predict(setup: Setup, num_devices: int, num_hosts: int = 1, constants: Constants | None = None) -> Prediction:
    """The prediction for one number of devices. `abstains` has the reason if the interval is too wide to be useful."""
    setup.check_devices(num_devices, num_hosts)
    known = constants or shipped()
    scenario = scenario_of(setup, num_devices, num_hosts)
    many = Scenarios([scenario])
    alone = terms(many, known)
    compute = float(alone.compute[0])
    work = _work(setup, scenario, compute)
    wires = _wires(setup, scenario, many, known)
    slowdown = _slowdown(setup, num_devices)
    run = simulate(work, wires, slowdown)
    links = exchange_seconds(work, wires)
    share = float(exposed_share(many, known, np.array([links]))[0])
    hidden = max(0.0, links - run.exposed_seconds)
    exchange = run.exposed_seconds + share * hidden if work.overlap else share * run.exposed_seconds
    exchange += float(bucket_seconds(many)[0])
    rows = setup.rows / num_devices if setup.strong else setup.rows
    rows_of_step = rows * num_devices * setup.accumulation
    parts = {
        "compute": compute,
        "stragglers": float(alone.straggling[0]) + max(0.0, run.compute_seconds - compute),
        "exchange": exchange / setup.sync_every,
        "launches": float(alone.launches[0]) / setup.sync_every,
        "update": float(alone.update[0]),
    }
    parts |= _feeding(setup, rows_of_step / num_hosts, num_devices // num_hosts, sum(parts.values()))
    step = sum(parts.values())
    rate = rows_of_step / step
    # The baseline accumulates gradients, too, so fewer updates do not raise the efficiency.
    linear = rows_of_step / float(alone.alone[0])
    efficiency = rate / linear
    low, high = (float(each) for each in interval(efficiency, bool(setup.machine.assumed), known.interval))
    if num_devices == 1:
        low = high = efficiency
    if setup.machine.shares_cores:
        low /= num_devices
    low, high = low / setup.step.factor, high * setup.step.factor
    bottleneck = max(parts, key=lambda name: parts[name])
    abstains = _abstains(low, high, setup)
    return Prediction(
        num_devices,
        num_hosts,
        rate,
        low * linear,
        high * linear,
        efficiency,
        step,
        parts,
        bottleneck,
        abstains,
        run.busy,
    )


def predictions(setup: Setup, most_devices: int, num_hosts: int | None = None) -> list[Prediction]:
    """Predictions for 1, 2, 4, ... devices up to `most_devices`; with several hosts, only full hosts."""
    per_host = setup.machine.devices_per_host
    found = []
    for count in doubling(most_devices):
        if count > per_host and count % per_host and count != most_devices:
            continue
        hosts = math.ceil(count / per_host)
        if num_hosts is not None and count == most_devices:
            hosts = num_hosts
        found.append(predict(setup, count, hosts))
    return found


def scenario_of(setup: Setup, num_devices: int, num_hosts: int) -> Scenario:
    machine, model = setup.machine, setup.model
    software = "unoverlapped" if not setup.overlap and setup.software in ("ddp", "gloo", "fused") else setup.software
    return Scenario(
        step_seconds=setup.step.seconds,
        num_devices=num_devices,
        num_hosts=num_hosts,
        num_parameters=model.num_parameters,
        num_tensors=len(buckets(setup)),
        gradient_bytes=sum(setup.gradients.wire_bytes(size) for size in model.sizes),
        exchange=setup.exchange if num_devices > 1 else "none",
        software=software,
        device_link=machine.device_link.kind,
        device_bytes_per_second=machine.device_link.bytes_per_second,
        network=machine.network.kind if machine.network else "tcp",
        network_bytes_per_second=machine.network.bytes_per_second if machine.network else 1.25e9,
        memory_bytes_per_second=machine.device.memory_bytes_per_second,
        batch_share=1 / num_devices if setup.strong else 1.0,
        accumulation=setup.accumulation,
        shares_board=machine.device.shares_board,
        ragged=model.ragged,
        by_processor=SOFTWARE[setup.software].by_processor,
    )


def buckets(setup: Setup) -> list[list[float]]:
    """Parameters per tensor for each bucket, in the order of the backward pass.

    The tensor that fills a bucket is its last. PyTorch's first bucket is small, so that the exchange begins early
    (`DistributedDataParallel`, torch 2.13).
    """
    found: list[list[float]] = []
    first = min(SOFTWARE[setup.software].first_bucket_bytes, setup.bucket_bytes)
    filled = full = 0.0
    for size in reversed(setup.model.sizes):
        if filled >= full:
            filled, full = 0.0, setup.bucket_bytes if found else first
            found.append([])
        found[-1].append(size)
        filled += setup.gradients.wire_bytes(size)
    return found


def _work(setup: Setup, scenario: Scenario, compute_seconds: float) -> Work:
    """The step of one device; each bucket is ready when its tensors are."""
    micro_step = compute_seconds / scenario.accumulation
    groups = buckets(setup)
    tensors = sum(len(group) for group in groups)
    encode = setup.gradients.encode_seconds(setup.model.num_parameters, scenario.memory_bytes_per_second)
    return Work(
        forward_seconds=micro_step * (1 - BACKWARD_SHARE),
        backward_seconds=[micro_step * BACKWARD_SHARE * len(group) / tensors for group in groups],
        bucket_bytes=[sum(setup.gradients.wire_bytes(size) for size in group) for group in groups],
        accumulation=scenario.accumulation,
        overlap=setup.overlap and scenario.software != "unoverlapped",
        encode_seconds=encode / len(groups),
    )


def _wires(setup: Setup, scenario: Scenario, many: Scenarios, constants: Constants) -> Wires:
    """The machine's links with usable rates; `many` is the scenario as columns."""
    machine = setup.machine
    return Wires(
        scenario.exchange,
        scenario.num_devices,
        scenario.num_hosts,
        float(device_link_rate(many, constants)[0]),
        machine.device_link.latency_seconds,
        float(network_rate(many, constants)[0]),
        machine.network.latency_seconds if machine.network else 0.0,
        setup.slow_device_link,
        setup.slow_network_link,
        setup.lost_share,
        retry_seconds=_RETRY_SECONDS,
        unanswered_bytes=SOFTWARE[setup.software].unanswered_bytes,
        sparse=setup.gradients.sparse,
    )


def _slowdown(setup: Setup, num_devices: int) -> float:
    """The factor by which the slowest replica's step is longer, drawn with a fixed seed so that a plan is repeatable.

    Each bucket waits for all replicas, so only the slowest one matters.
    """
    if setup.straggler_spread == 0 or num_devices == 1:  # the step time of one device is known
        return 1.0
    return float(np.exp(np.random.default_rng(0).normal(0.0, setup.straggler_spread, num_devices)).max())


def _feeding(setup: Setup, host_rows: float, devices_per_host: int, busy: float) -> dict[str, float]:
    """Seconds that copies, the start of the devices, and the input pipeline add; computing hides staged copies."""
    copy = host_rows / devices_per_host * setup.row_bytes / setup.machine.host_copy_bytes_per_second
    copies = max(0.0, copy - busy) if setup.staged else copy
    dispatch = _DISPATCH_SECONDS * devices_per_host if setup.one_process else 0.0
    starting = max(0.0, dispatch - busy - copies)
    reading = 0.0 if setup.input_rows_per_second is None else host_rows / setup.input_rows_per_second
    # With staging, reading is hidden while the devices compute.
    waits = max(0.0, reading - busy - copies - starting) if setup.staged else reading
    return {"copies": copies, "dispatch": starting, "input": waits}


def _abstains(low: float, high: float, setup: Setup) -> str:
    if high > _WIDEST * setup.step.factor**2 * low:
        return f"the interval would reach from {low:.2f} to {high:.2f} of linear scaling"
    return ""
