"""Every planted case diagnosed, and its fix measured: one JSON line a case in `benchmarks/results/doctor.jsonl`.

`python -m tests.doctor.planted [--only WORD]` runs them; `table.py` makes a page of the newest line of each case.
Imports no framework.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import lines
from tests.doctor.bodies import run_case
from tests.doctor.cases import CASES, Planted
from tests.harness.client import BACKENDS, RemoteError, Worker, WorkerLost

BENCHMARK = "doctor"
NUM_DEVICES = 2
TOLERANCE = 0.15


def outcomes(cases: Sequence[Planted]) -> Iterator[dict[str, Any]]:
    """The result of each case, by backend, each backend in one process."""
    for backend in BACKENDS:
        mine = [case for case in cases if case.backend == backend]
        if not mine:
            continue
        worker = Worker(backend, NUM_DEVICES)
        for case in mine:
            yield outcome(worker, case)
        worker.close()


def outcome(worker: Worker, case: Planted, fix: bool = True) -> dict[str, Any]:
    """The diagnosis of a case, and with `fix` also the measured gain of the fix."""
    try:
        found = worker.run(run_case, case=asdict(case), fix=fix, timeout_seconds=300)
    except (RemoteError, WorkerLost) as error:
        return {"case": case.name, **asdict(case), "failed": str(error), "named": False, "kept": False}
    return {"case": case.name, **asdict(case), **found, **verdict(case, found)}


def verdict(case: Planted, found: dict[str, Any]) -> dict[str, Any]:
    """Whether the first finding is the planted one, and whether its promise was kept."""
    first = found["findings"][0] if found["findings"] else None
    named = case.cause == (first["cause"] if first else None)
    error = None
    if named and first and first["rows_per_second_after"] and found["fixed_rows_per_second"]:
        error = first["rows_per_second_after"] / found["fixed_rows_per_second"] - 1
    return {"named": named, "error": error, "kept": error is None or abs(error) <= TOLERANCE}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.doctor.planted", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names hold this")
    options = parser.parse_args(arguments)
    for line in outcomes([case for case in CASES.values() if options.only in case.name]):
        lines.append([{"benchmark": BENCHMARK, **line, **lines.origin()}])
        print(summary(line), file=sys.stderr, flush=True)
    return 0


def summary(line: dict[str, Any]) -> str:
    if "failed" in line:
        return f"BAD {line['case']}: {line['failed']}"
    causes = ", ".join(f"{each['cause']} {1000 * each['lost_seconds']:.1f} ms" for each in line["findings"])
    error = "" if line["error"] is None else f" promise off by {100 * line['error']:+.0f}%"
    mark = "ok " if line["named"] and line["kept"] else "BAD"
    of = f"of {1000 * line['step_seconds']:.1f} ms"
    return f"{mark} {line['case']}: {causes or 'nothing'} {of}{error} ({line['seconds']:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
