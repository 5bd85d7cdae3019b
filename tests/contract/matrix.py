"""The matrix in float64: settings x devices x backends; a cell is equal to plain Keras, refused before the first step, or wrong.

`python -m tests.contract.matrix` runs all cells and writes one JSON line a cell to `benchmarks/results/matrix.jsonl`, after a
line of provenance. Imports no framework.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from tests.contract import catalogue
from tests.contract.cases import Case
from tests.contract.compare import TOLERANCES
from tests.contract.oracle import Contract, Ledger
from tests.harness.client import BACKENDS, NUM_DEVICES, ROOT, RemoteError, WorkerLost, Workers

OUTPUT = ROOT / "benchmarks" / "results" / "matrix.jsonl"


@dataclass(frozen=True)
class Cell:
    """One setting on a number of devices. `verdict`: "equal", "refused", "failed" (with an error, but late) or "different"."""

    backend: str
    devices: int
    setting: str
    verdict: str
    difference: float | None
    where: str


def settings(every: int = 1) -> dict[str, Case]:
    """Every job of the catalogue in float64, without those about other precisions; or each `every`-th of them."""
    named = {
        name: replace(case, policy="float64")
        for name, case in catalogue.CASES.items()
        if name not in catalogue.PRECISION and name != "jit_compile"
    }
    return {name: named[name] for name in list(named)[::every]}


def cells(contract: Contract, named: dict[str, Case], devices: Sequence[int]) -> Iterator[Cell]:
    """Run settings of one backend, each on every number of devices."""
    backend = contract.workers.backend
    for setting, case in named.items():
        try:
            for number, found in contract.comparisons(case, tuple(devices)):
                difference = found.difference if found.verdict in ("equal", "different") else None
                yield Cell(backend, number, setting, found.verdict, difference, found.where)
        except (RemoteError, WorkerLost) as error:
            for number in devices:
                yield Cell(backend, number, setting, "failed", None, str(error).splitlines()[0][:300])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="only each n-th setting")
    parser.add_argument(
        "--devices", default=",".join(map(str, range(1, NUM_DEVICES + 1))), help="numbers, separated by commas"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file of JSON lines")
    parser.add_argument("--at-once", type=int, default=1, help="backends that run at the same time")
    options = parser.parse_args(arguments)
    devices = [int(number) for number in options.devices.split(",")]
    counts: Counter[str] = Counter()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w") as lines:
        command = (
            f"python -m tests.contract.matrix --backends {options.backends} --every {options.every} "
            f"--devices {options.devices}"
        )
        print(json.dumps(about("N devices against plain Keras on one, float64", command)), file=lines)
        with ThreadPoolExecutor(options.at_once) as pool:
            run = partial(_run_backend, named=settings(options.every), devices=devices, lines=lines)
            for found in pool.map(run, options.backends.split(",")):
                counts += found
        print(json.dumps({"kind": "total", **counts}), file=lines)
    print(summary(counts))
    return 0 if counts["different"] == counts["failed"] == 0 else 1


def summary(counts: Counter[str]) -> str:
    return (
        f"{counts.total()} cells: {counts['equal']} equal, {counts['refused']} refused before the first step, "
        f"{counts['failed']} failed, {counts['different']} silently different"
    )


def _run_backend(backend: str, named: dict[str, Case], devices: Sequence[int], lines: IO[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    workers = Workers.of(backend)
    started = time.monotonic()
    for cell in cells(Contract(workers, Ledger()), named, devices):
        counts[cell.verdict] += 1
        print(json.dumps({"kind": "cell", **asdict(cell)}), file=lines, flush=True)
        if cell.verdict not in ("equal", "refused"):
            print(f"{backend}, {cell.devices} devices, {cell.setting}: {cell.verdict}: {cell.where}", file=sys.stderr)
    workers.close()
    print(f"{backend}: {summary(counts)} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
    return counts


def about(what: str, command: str) -> dict[str, object]:
    """The line of provenance of a matrix."""
    packages = ("keras", "jax", "tensorflow", "tensorflow-cpu", "torch", "numpy")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "kind": "run",
        "what": what,
        "tolerance": TOLERANCES["float64"],
        "command": command,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
