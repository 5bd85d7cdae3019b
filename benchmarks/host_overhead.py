"""Overhead of abreast between hosts: `fit` beside a hand-written loop over the same two emulated hosts, in the same run.

    sudo python benchmarks/host_overhead.py [--backends jax] [--models dense,conv] [--links 1Gbps,10Gbps]

Each host is a network namespace with one core (`slow_links.py`). On each link, pairs of processes take turns: the hand-written
loop (`host_native.py`), abreast (`slow_training.py`), and abreast in each process by itself. The first turn of each pair is
dropped, and so are the first and the last update of every turn. A sample is one step, of the slower host. The prediction of
`abreast plan` stands beside: it gets what `plan_links.py` gives it, and on JAX the rate of JAX's own sums (`jax_sums.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax_sums
import lines
from host_pairs import DROPPED, Pair, Program, two_cores
from plan_links import LINKS, MODELS, link_speed, setup_of
from slow_links import PORTS, NotPermitted, SlowLink, slow_link

from abreast.plan.predict import predict

_LINKS = ("1Gbps", "10Gbps")
_EXCHANGES: dict[str, dict[str, Any]] = {"jax": {"overlap": False}, "tensorflow": {"bucket_bytes": 2**22}, "torch": {}}
_STEPS = 6  # timed in a turn
_NOTES = {"warm_up": f"the first turn, and of each turn the first {DROPPED} steps and the last"}


def main() -> None:
    arguments = _arguments()
    cores = two_cores("host_overhead")
    ratios = []
    try:
        for backend in arguments.backends:
            for model in arguments.models:
                ratios += _measure(backend, model, cores, arguments)
    except NotPermitted as error:
        sys.exit(f"host_overhead: {error}")
    print(f"abreast / native, mean of {len(ratios)} cells: {statistics.fmean(ratios):.3f}")


def _measure(backend: str, model: str, cores: Sequence[int], arguments: argparse.Namespace) -> list[float]:
    training = Program("slow_training.py", {"model": model, "accumulations": [1]}, backend, cores)
    native = Program("host_native.py", {"model": model}, backend, cores, port=PORTS[-8])
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(slow_link())
        pairs = {
            "native": stack.enter_context(Pair(native, link)),
            "abreast": stack.enter_context(Pair(training, link)),
            "alone": stack.enter_context(Pair(training)),
        }
        for pair in pairs.values():
            pair.run(1, 1)  # compiles
        rate = jax_sums.bytes_per_second(pairs["alone"].tensor_sizes, cores) if backend == "jax" else None
        return [_measure_link(backend, model, name, link, pairs, rate, arguments) for name in arguments.links]


def _measure_link(
    backend: str,
    model: str,
    name: str,
    link: SlowLink,
    pairs: dict[str, Pair],
    all_reduce: float | None,
    arguments: argparse.Namespace,
) -> float:
    link.shape(LINKS[name][0])
    rate, latency = link_speed(link, name)
    samples: dict[str, list[float]] = {side: [] for side in pairs}
    for _ in range(arguments.rounds):
        for side, pair in pairs.items():
            samples[side] += pair.run(1, _STEPS)
    alone = statistics.median(samples.pop("alone"))
    setup = setup_of(model, pairs["alone"].tensor_sizes, alone, rate, latency, 1, all_reduce)
    predicted = predict(replace(setup, **_EXCHANGES[backend]), 2, 2)
    ratio = statistics.median(samples["abreast"]) / statistics.median(samples["native"])
    error = predicted.step_seconds / statistics.median(samples["abreast"]) - 1
    case: dict[str, Any] = {"backend": backend, "model": model, "link": name}
    told = {"predicted_seconds": round(predicted.step_seconds, 6), "error": round(error, 4)}
    told |= {"one_device_seconds": round(alone, 6), "ratio_to_native": round(ratio, 4)}
    found = [
        lines.line("host_overhead", case | {"side": side}, seconds, "seconds per step", **_NOTES, **told)
        for side, seconds in samples.items()
    ]
    if not arguments.dry:
        lines.append(found)
    native, ours = (f"{side} {1000 * line['median']:.1f} ms" for side, line in zip(samples, found, strict=True))
    print(f"{backend:<11}{model:<12}{name:<7} {native}, {ours}: {ratio:.3f}; plan {error:+.1%}", flush=True)
    return ratio


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=_names, default=("jax", "tensorflow", "torch"))
    parser.add_argument("--models", type=_names, default=MODELS)
    parser.add_argument("--links", type=_names, default=_LINKS)
    parser.add_argument("--rounds", type=int, default=7, help=f"turns of each side, of {_STEPS} steps (default: 7)")
    parser.add_argument("--dry", action="store_true", help="keep no lines")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
