"""Predictions of `abreast plan` compared with measurements: two emulated hosts of one core each on slow links.

    sudo python benchmarks/plan_links.py [--models dense,conv] [--links 100Mbps,1Gbps+1ms] [--accumulate 1,4]

Each host is a network namespace (`slow_links.py`), and abreast trains on PyTorch over both as under `torchrun`, with gradients
over TCP by gloo. Every process has one thread for its kernels and stays on its core.

The prediction gets facts that are known without a training on two hosts: the seconds of a step on one device; the tensors of the
model; the rate and the latency of one plain TCP connection over the link; the rate at which one core copies memory; and the
rate at which two processes of one host sum a buffer, as `abreast machine` measures it. The step on one device is measured on both
cores at once, in two independent processes: the cores share caches and memory, unlike two real hosts.
The longer one of each pair of steps counts, since hosts that train together wait for one another. For an update of
several steps, as many consecutive steps are taken together: a rare slow step is part of every long update, and not of every step.
Nothing is fitted here.

Pairs of processes take turns on a link: alone, then together. The first turn of each pair is dropped, and so are the first and
the last update of every turn, in which an epoch begins and ends. An update has as many steps as gradients are accumulated for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import lines
from host_pairs import DROPPED, ENVIRONMENT, Pair, Program, two_cores
from slow_links import ADDRESSES, NotPermitted, SlowLink, slow_link

from abreast.machine import host_speeds
from abreast.plan.machine import DeviceSpeed, LinkSpeed, Machine
from abreast.plan.models import Model
from abreast.plan.predict import Prediction, predict
from abreast.plan.roofline import StepTime
from abreast.plan.setup import Setup

MODELS = ("dense", "conv", "transformer")
LINKS = {  # bits per second, and seconds each way
    "100Mbps": (100e6, 0.0),
    "1Gbps": (1e9, 0.0),
    "10Gbps": (10e9, 0.0),
    "1Gbps+1ms": (1e9, 1e-3),
    "100Mbps+20ms": (100e6, 20e-3),
}
_STEPS, _UPDATES = 4, 2  # timed in a turn, alone and together: short ones, since a shared machine changes its speed
_SUMMED_BYTES = 1 << 24  # the largest buffer that `abreast machine` sums on a processor
_SUMS = 5  # the result is their median
_SENT_SECONDS = 0.4  # length of one transfer that measures the link
_NOTES = {"warm_up": f"the first turn, and of each turn the first {DROPPED} updates and the last"}


def main() -> None:
    arguments = _arguments()
    cores = two_cores("plan_links")
    _all_reduce()  # before other processes start
    try:
        for model in arguments.models:
            _measure_model(model, cores, arguments)
    except NotPermitted as error:
        sys.exit(f"plan_links: {error}")
    except KeyboardInterrupt:
        sys.exit("plan_links: stopped; the lines so far are kept\nhint: --models and --links measure what is left")


def _measure_model(model: str, cores: Sequence[int], arguments: argparse.Namespace) -> None:
    with Pair(_training(model, cores, (1,))) as alone:
        alone.run(1, 1)
        for delay in sorted({LINKS[name][1] for name in arguments.links}):
            with slow_link(delay) as link, Pair(_training(model, cores, arguments.accumulate), link) as together:
                for accumulation in arguments.accumulate:
                    together.run(accumulation, 1)  # learns which weights exist, and connects
                for name in arguments.links:
                    if LINKS[name][1] == delay:
                        link.shape(LINKS[name][0])
                        _measure_link(model, name, link, alone, together, arguments)


def _measure_link(
    model: str, name: str, link: SlowLink, alone: Pair, together: Pair, arguments: argparse.Namespace
) -> None:
    rate, latency = link_speed(link, name)
    facts = {"link_bytes_per_second": round(rate), "link_latency_seconds": round(latency, 7)}
    for accumulation in arguments.accumulate:
        ones, measured = [], []
        for _ in range(arguments.rounds):
            ones += _means(alone.run(1, _STEPS), accumulation)
            measured += together.run(accumulation, _UPDATES)
        one = statistics.median(ones)
        setup = setup_of(model, alone.tensor_sizes, one, rate, latency, accumulation)
        predicted = predict(setup, len(ADDRESSES), len(ADDRESSES))
        error = predicted.step_seconds / statistics.median(measured) - 1
        case = {"model": model, "link": name, "accumulation": accumulation}
        given = facts | {"one_device_seconds": round(one, 6), "memory_bytes_per_second": round(_memory())}
        given |= {"all_reduce_bytes_per_second": round(_all_reduce())}
        told = {"predicted_seconds": round(predicted.step_seconds, 6), "error": round(error, 4)}
        line = lines.line("plan_links", case, measured, "seconds per update", **told, **given, **_NOTES)
        if not arguments.dry:
            lines.append([line])
        print(_row(case, line, predicted), flush=True)


def link_speed(link: SlowLink, name: str) -> tuple[float, float]:
    """Bytes per second and seconds of latency of one TCP connection between the hosts."""
    with link.connection() as ends:
        return host_speeds.connection(*ends, round(LINKS[name][0] / 8 * _SENT_SECONDS))


def setup_of(
    name: str,
    tensor_sizes: Sequence[int],
    one_seconds: float,
    rate: float,
    latency: float,
    accumulation: int,
    all_reduce: float | None = None,
) -> Setup:
    """`all_reduce`: bytes per second at which two processes of this host sum the gradients; by default that of torch."""
    model = Model(name, sum(tensor_sizes), len(tensor_sizes), tensor_sizes=tuple(tensor_sizes))
    core = DeviceSpeed("one core", _memory())
    machine = Machine(
        "an emulated host",
        core,
        1,
        LinkSpeed("all-reduce", all_reduce or _all_reduce()),
        LinkSpeed("measured", rate, latency),
    )
    step = StepTime(one_seconds, 1.0, "measured")
    return Setup(model, machine, step, 1, software="gloo", accumulation=accumulation)


@cache
def _memory() -> float:
    """Bytes per second that one core reads and writes."""
    return 2 * float(host_speeds.memory()["memory_copy_bytes_per_second"])


@cache
def _all_reduce() -> float:
    """Bytes per second at which two processes of this host sum a buffer: each has one thread, and there are two cores."""
    request = {"devices": [2], "sizes": [_SUMMED_BYTES] * _SUMS, "simulated": True}
    command = [sys.executable, "-m", "abreast.machine.all_reduce_times", json.dumps(request)]
    done = subprocess.run(
        command,
        env=os.environ | ENVIRONMENT | {"KERAS_BACKEND": "torch"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return statistics.median(float(entry["bus_bytes_per_second"]) for entry in json.loads(done.stdout))


def _training(model: str, cores: Sequence[int], accumulations: Sequence[int]) -> Program:
    return Program("slow_training.py", {"model": model, "accumulations": list(accumulations)}, "torch", cores)


def _means(seconds: Sequence[float], count: int) -> list[float]:
    """The means of consecutive groups of that many values; the rest is left out."""
    return [statistics.fmean(seconds[i : i + count]) for i in range(0, len(seconds) - count + 1, count)]


def _row(case: dict[str, Any], line: dict[str, Any], predicted: Prediction) -> str:
    parts = ", ".join(f"{name} {1000 * value:.0f}" for name, value in predicted.parts.items() if value > 5e-4)
    times = f"{1000 * line['median']:8.1f} ms measured {1000 * predicted.step_seconds:8.1f} predicted"
    return f"{case['model']:<12}{case['link']:<13}{case['accumulation']:>2} {times} {line['error']:+7.1%}   ({parts})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=_names(MODELS), default=MODELS)
    parser.add_argument("--links", type=_names(LINKS), default=tuple(LINKS))
    parser.add_argument("--accumulate", type=lambda text: [int(part) for part in text.split(",")], default=(1, 4))
    parser.add_argument("--rounds", type=int, default=8, help=f"turns of each side, of {_UPDATES} updates (default: 8)")
    parser.add_argument("--dry", action="store_true", help="keep no lines")
    return parser.parse_args()


def _names(known: Any) -> Any:
    def names(text: str) -> list[str]:
        found = text.split(",")
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return found

    return names


if __name__ == "__main__":
    main()
