"""The matrix over hosts in float64: settings x shapes x backends; each rank is equal to plain Keras, refused, or wrong.

`python -m tests.launched.matrix` runs all cells and writes one JSON line a cell to `benchmarks/results/hosts.jsonl`, after a
line of provenance. A shape such as `2x2:host` is two emulated hosts with two devices each and one process per host. Imports no
framework.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from tests.contract.cases import Case, Results, run
from tests.contract.compare import Comparison, compare, tolerance
from tests.contract.matrix import about, settings, summary
from tests.contract.oracle import PLAIN_IS_WRONG, plain_case
from tests.harness.client import BACKENDS, ROOT, RemoteError, Worker, WorkerLost
from tests.launched.emulated_hosts import emulated_hosts
from tests.launched.ranks import Ranks, Shape

OUTPUT = ROOT / "benchmarks" / "results" / "hosts.jsonl"
SHAPES = ("1x1:host", "2x1:host", "2x2:host", "2x2:device", "3x1:host")
EVERY = 9  # of about 150 settings
_SECONDS = 120
_WORST = ("equal", "refused", "failed", "different")


@dataclass(frozen=True)
class Cell:
    """One setting on a shape. `verdict` is the worst of all ranks, as in `tests.contract.matrix`."""

    backend: str
    shape: str
    setting: str
    verdict: str
    difference: float | None
    where: str


def cells(backend: str, shape: Shape, named: dict[str, Case], plain: dict[str, Results]) -> Iterator[Cell]:
    """Run settings of one backend on a shape. `plain` holds the results of plain Keras."""
    with emulated_hosts(shape.hosts) as hosts:
        ranks = Ranks(backend, shape, hosts)
        try:
            for setting, case in named.items():
                found = _worst(backend, case, ranks, plain[setting])
                difference = found.difference if found.verdict in ("equal", "different") else None
                yield Cell(backend, str(shape), setting, found.verdict, difference, found.where)
        finally:
            ranks.kill()


def results_of_plain_keras(backend: str, named: dict[str, Case]) -> dict[str, Results]:
    worker = Worker(backend, 0)
    try:
        return {name: worker.run(run, case=plain_case(case)) for name, case in named.items()}
    finally:
        worker.close()


def _worst(backend: str, case: Case, ranks: Ranks, plain: Results) -> Comparison:
    try:
        results = ranks.run(run, _SECONDS, case=case, devices="auto")
    except (RemoteError, WorkerLost) as error:
        return Comparison("failed", where=str(error).splitlines()[0][:300], details=str(error))
    without = PLAIN_IS_WRONG.get((backend, case.source))
    found = [compare(plain, each, tolerance(case), without=without) for each in results]
    if any("error" in each for each in results):
        ranks.kill()  # a job of processes ends with an error
    return max(found, key=lambda each: (_WORST.index(each.verdict), each.difference))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.launched.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, separated by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="shapes, separated by commas")
    parser.add_argument("--every", type=int, default=EVERY, help="only each n-th setting")
    parser.add_argument("--only", default="", help="only settings with this text in their name, whatever --every says")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file of JSON lines")
    options = parser.parse_args(arguments)
    command = f"python -m tests.launched.matrix --backends {options.backends} --shapes {options.shapes} --every {options.every}"
    chosen = (
        {name: case for name, case in settings().items() if options.only in name}
        if options.only
        else settings(options.every)
    )
    counts: Counter[str] = Counter()
    with options.output.open("w") as lines:
        what = "processes on emulated hosts against plain Keras in one process, float64"
        print(json.dumps(about(what, command)), file=lines)
        for backend in options.backends.split(","):
            counts += _run_backend(backend, chosen, [Shape.of(each) for each in options.shapes.split(",")], lines)
        print(json.dumps({"kind": "total", **counts}), file=lines)
    print(summary(counts))
    return 0 if counts["different"] == counts["failed"] == 0 else 1


def _run_backend(backend: str, named: dict[str, Case], shapes: Sequence[Shape], lines: IO[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    started = time.monotonic()
    plain = results_of_plain_keras(backend, named)
    for shape in shapes:
        for cell in cells(backend, shape, named, plain):
            counts[cell.verdict] += 1
            print(json.dumps({"kind": "cell", **asdict(cell)}), file=lines, flush=True)
            if cell.verdict != "equal":
                print(f"{backend}, {shape}, {cell.setting}: {cell.verdict}: {cell.where}", file=sys.stderr)
    print(f"{backend}: {summary(counts)} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
    return counts


if __name__ == "__main__":
    sys.exit(main())
