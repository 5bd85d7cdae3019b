"""Sums over two emulated hosts with two ranks each, on gloo: one ring over all ranks, or first inside of each host.

    sudo python benchmarks/host_sums.py [--links 1Gbps,10Gbps] [--kilobytes 4,1000,25000]

Each host is a network namespace (`slow_links.py`). *flat* is what abreast does. *by host*: a sum inside of each host over the
loopback, one between the two first ranks, and a broadcast inside. The two ways take turns; a sample is one sum, of the slowest
rank. The first turn is dropped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import lines
from plan_links import LINKS
from slow_links import ADDRESSES, DEVICE, PORTS, NotPermitted, slow_link

_RANKS_PER_HOST = 2
_SIZE = _RANKS_PER_HOST * len(ADDRESSES)
_WAYS = ("flat", "by host")
_SUMS = 5  # in a turn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--links", type=lambda text: text.split(","), default=["1Gbps", "10Gbps"])
    parser.add_argument("--kilobytes", type=lambda text: [*map(int, text.split(","))], default=[4, 1000, 25000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rank", type=int)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        _serve(arguments.rank)
        return
    try:
        _measure(arguments)
    except NotPermitted as error:
        sys.exit(f"host_sums: {error}")


def _measure(arguments: argparse.Namespace) -> None:
    with slow_link() as link:
        ranks = [
            subprocess.Popen(
                link.hosts[rank // _RANKS_PER_HOST].command(sys.executable, __file__, "--rank", str(rank)),
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for rank in range(_SIZE)
        ]
        try:
            for name in arguments.links:
                link.shape(LINKS[name][0])
                for kilobytes in arguments.kilobytes:
                    _record(name, kilobytes, _samples(ranks, kilobytes, arguments.rounds))
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()


def _samples(ranks: list[Any], kilobytes: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {way: [] for way in _WAYS}
    for turn in range(rounds + 1):
        for way in _WAYS:
            for rank in ranks:
                rank.stdin.write(json.dumps([way, kilobytes]) + "\n")
                rank.stdin.flush()
            said = [json.loads(rank.stdout.readline()) for rank in ranks]
            if turn:
                found[way] += [max(each) for each in zip(*said, strict=True)]
    return found


def _record(link: str, kilobytes: int, samples: dict[str, list[float]]) -> None:
    for way, seconds in samples.items():
        case = {"link": link, "kilobytes": kilobytes, "way": way, "hosts": len(ADDRESSES), "ranks": _SIZE}
        line = lines.line("host_sums", case, seconds, "s", warm_up="the first turn")
        lines.append([line])
        print(f"{link} {kilobytes} kB {way}: {1000 * sorted(seconds)[len(seconds) // 2]:.2f} ms", flush=True)


def _serve(rank: int) -> None:
    """One rank: sums as the lines of its input say."""
    import torch

    sums = _ways(rank)
    for text in sys.stdin:
        way, kilobytes = json.loads(text)
        tensor = torch.ones(kilobytes * 1000 // 4)
        seconds = []
        for _ in range(_SUMS):
            start = time.perf_counter()
            sums[way](tensor)
            seconds.append(time.perf_counter() - start)
            tensor.fill_(1.0)
        print(json.dumps(seconds), flush=True)


def _ways(rank: int) -> dict[str, Callable[[Any], None]]:
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = DEVICE
    dist.init_process_group("gloo", f"tcp://{ADDRESSES[0]}:{PORTS[-1]}", rank=rank, world_size=_SIZE)
    first = rank - rank % _RANKS_PER_HOST
    between = dist.new_group([*range(0, _SIZE, _RANKS_PER_HOST)])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    inside = [dist.new_group([*range(at, at + _RANKS_PER_HOST)]) for at in range(0, _SIZE, _RANKS_PER_HOST)]
    own = inside[first // _RANKS_PER_HOST]

    def by_host(tensor: Any) -> None:
        dist.reduce(tensor, first, group=own)
        if rank == first:
            dist.all_reduce(tensor, group=between)
        dist.broadcast(tensor, first, group=own)

    return {"flat": lambda tensor: dist.all_reduce(tensor), "by host": by_host}


if __name__ == "__main__":
    main()
