"""One run of `make gpu`: look at the machine, run the parts, keep a line of each, print the table."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import lines
from benchmarks.gpu import rows as kept_rows
from benchmarks.gpu.catalogue import DEVICES, PARTS, Part
from benchmarks.gpu.machine import BACKENDS, Machine, look
from benchmarks.gpu.rows import BENCHMARK, Row
from benchmarks.gpu.runner import Budget, Job, jobs, run
from benchmarks.gpu.table import report


def session(options: argparse.Namespace) -> int:
    """Run the session; returns the exit code."""
    began = time.monotonic()
    try:
        machine = look(simulated_of(options.devices))
        only = names_of(options.only)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not machine.simulated and not machine.num_gpus:
        hint = "--devices cpu:2 tries the same with simulated devices"
        print(f"error: the NVIDIA driver shows no GPU\nhint: {hint}", file=sys.stderr)
        return 2
    output = Path(options.output) if options.output else lines.RESULTS / f"{BENCHMARK}.jsonl"
    on_cpu = kept_rows.figures_on_the_cpu(kept_rows.kept(output))
    found = []
    try:
        for row in results(PARTS, machine, Budget(options.seconds), only):
            kept_rows.append(output, row, lines.origin())
            if row.seconds:
                print(f"{row.status}: {row.part} {row.backend}, {row.seconds:.0f} s", file=sys.stderr, flush=True)
            found.append(row)
    except KeyboardInterrupt:
        print(f"stopped; lines of {len(found)} parts are in {output}", file=sys.stderr, flush=True)
        os._exit(130)  # with this process, the parts that run side by side end; their threads would wait for them
    print(report(in_order(found), on_cpu | kept_rows.figures_on_the_cpu(kept_rows.kept(output))))
    print(f"{time.monotonic() - began:.0f} s of {options.seconds:.0f} s; lines in {output}")
    return 1 if any(row.status == "failed" for row in found) else 0


def results(
    parts: Sequence[Part], machine: Machine, budget: Budget, only: frozenset[str] = frozenset()
) -> Iterator[Row]:
    """A row of every chosen part, beginning with the parts that find out which frameworks can use the devices."""
    todo = [job for job in jobs((DEVICES,), machine) if wanted(job, only, {DEVICES.name, *(p.name for p in parts)})]
    for row in run(todo, machine, budget):
        machine.note(row)
        yield row
    names = {part.name for part in parts}
    yield from run([job for job in jobs(parts, machine) if wanted(job, only, names)], machine, budget)


def wanted(job: Job, only: frozenset[str], names: set[str]) -> bool:
    """Whether a job's part and backend are chosen; all are if none is named. The part `devices` always is."""
    backends = only & set(BACKENDS)
    parts = (only & names) | {DEVICES.name}
    return (not backends or job.backend in backends | {""}) and (only == backends or job.part.name in parts)


def in_order(found: Sequence[Row]) -> list[Row]:
    """Rows in the order of the catalogue."""
    order = {part.name: number for number, part in enumerate((DEVICES, *PARTS))}
    return sorted(found, key=lambda row: (order[row.part], row.backend, row.devices))


def simulated_of(text: str) -> int:
    """The number of devices to simulate; 0 for real ones."""
    match = re.fullmatch(r"gpu|cpu:([1-9]\d*)", text)
    if match is None:
        raise ValueError(f"--devices {text}\nhint: give gpu, or cpu:N for N simulated devices")
    return int(match[1] or 0)


def names_of(text: str) -> frozenset[str]:
    """Names of parts and backends, checked to exist."""
    names = frozenset(filter(None, text.split(",")))
    known = {DEVICES.name, *(part.name for part in PARTS), *BACKENDS}
    if names - known:
        raise ValueError(
            f"--only: no part or backend {', '.join(sorted(names - known))}\nhint: {', '.join(sorted(known))}"
        )
    return names
