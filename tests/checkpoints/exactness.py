"""A campaign of interrupted trainings: `python -m tests.checkpoints.exactness --count 150 --seed 0 --backends jax torch`.

Each run draws a script, interrupts it and compares its end with that of the undisturbed script. It prints one JSON line a run,
and `n of n` in the end; `--output` appends the lines to a file. `--seed N --count 1 --backends NAME` repeats one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from abreast.provenance import commit
from tests.checkpoints.exact.draw import Draw, as_line, draw
from tests.harness.client import BACKENDS, NUM_DEVICES, ROOT, RemoteError, Worker, WorkerLost

LIMIT_SECONDS = 600.0
GOOD = ("equal", "announced", "refused")
_COMPARE: Any = SimpleNamespace(__module__="tests.checkpoints.exact.run", __name__="compare")  # which imports Keras


def run_of(worker: Worker, drawn: Draw) -> dict[str, Any]:
    """The verdict on one draw."""
    found: dict[str, Any] = worker.run(_COMPARE, draw=drawn, timeout_seconds=LIMIT_SECONDS)
    return found


def one(worker: Worker, seed: int) -> dict[str, Any]:
    """The line of one run."""
    drawn = draw(seed, worker.backend)
    begin = time.monotonic()
    try:
        found = run_of(worker, drawn)
    except (RemoteError, WorkerLost) as error:
        found = {"verdict": "failed", "where": str(error)[-3000:]}
    return {**as_line(drawn), "cell": drawn.cell, **found, "seconds": round(time.monotonic() - begin, 1)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--output", type=Path, help="append the lines to this file")
    asked = parser.parse_args(arguments)
    workers = {name: Worker(name, NUM_DEVICES) for name in asked.backends}
    counts: Counter[str] = Counter()
    try:
        for number in range(asked.count):
            name = asked.backends[number % len(asked.backends)]
            line = one(workers[name], asked.seed + number // len(asked.backends))
            counts[line["verdict"]] += 1
            _write({**line, "commit": commit(ROOT)}, asked.output)
    finally:
        for worker in workers.values():
            worker.close()
    num_good = sum(counts[each] for each in GOOD)
    print(f"{num_good} of {asked.count}: {dict(counts)}", file=sys.stderr)
    return 0 if num_good == asked.count else 1


def _write(line: dict[str, Any], output: Path | None) -> None:
    text = json.dumps(line)
    print(text, flush=True)
    if output is not None:
        with output.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
