"""Every habit on every backend, with plain Keras and on 2 and on 4 devices; one JSON line a cell.

`python -m tests.habits.sweep` writes `benchmarks/results/habits.jsonl` and prints unexpected cells; `python -m
tests.habits.page` makes a page of it. Imports no framework.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from abreast.provenance import commit, origin_of
from tests.habits.catalogue import Habit, every
from tests.habits.run import Ran, run
from tests.habits.verdict import Judged, holds, judge
from tests.harness.client import BACKENDS, ROOT, RemoteError, WorkerLost, Workers

OUTPUT = ROOT / "benchmarks" / "results" / "habits.jsonl"
DEVICES = (2, 4)
LIMIT_SECONDS = 120.0
# Seconds of this process's processor: placed runs compile and start more. What takes more than both of these is named.
SLOW_RATIO, SLOW_SECONDS = 2.0, 1.0


@dataclass(frozen=True)
class Cell:
    """A habit on a backend and a number of devices. `difference` is None where nothing was compared."""

    habit: str
    backend: str
    devices: int
    verdict: str
    expected: str
    as_expected: bool
    difference: float | None
    where: str
    plain_seconds: float
    seconds: float

    @property
    def slow(self) -> bool:
        return self.seconds > SLOW_RATIO * self.plain_seconds and self.seconds - self.plain_seconds > SLOW_SECONDS


def cells(workers: Workers, habit: Habit, devices: Sequence[int]) -> Iterator[tuple[Cell, Judged]]:
    """The cells of a habit on a backend. Plain Keras and abreast run at the same time."""
    workers.plain.begin(run, path=str(habit.path))
    try:
        placed = [_placed(workers, habit, number) for number in devices]
    finally:
        plain: Ran = workers.plain.result(LIMIT_SECONDS)
    for number, ran in zip(devices, placed, strict=True):
        yield _cell(workers.backend, habit, number, plain, ran)


def _placed(workers: Workers, habit: Habit, devices: int) -> Ran:
    """A placed run; a worker that dies, hangs or cannot send its answer fails this run alone."""
    try:
        ran: Ran = workers.abreast.run(run, timeout_seconds=LIMIT_SECONDS, path=str(habit.path), devices=devices)
    except (WorkerLost, RemoteError) as error:
        first, _, rest = str(error).partition("\n")
        return Ran(math.inf, error=[type(error).__name__], message=first, traceback=rest)
    return ran


def _cell(backend: str, habit: Habit, devices: int, plain: Ran, placed: Ran) -> tuple[Cell, Judged]:
    judged = judge(plain, placed, habit.tolerance, habit.without.get(backend))
    expected, words = habit.expects(backend)
    as_expected = holds(judged, expected, words, placed.warnings)
    difference = judged.difference if judged.verdict in ("equal", "warned", "announced", "different") else None
    cell = Cell(
        habit.name,
        backend,
        devices,
        judged.verdict,
        expected,
        as_expected,
        None if difference is None or math.isinf(difference) else difference,
        judged.where[:400],
        round(plain.seconds, 3),
        round(min(placed.seconds, LIMIT_SECONDS), 3),
    )
    return cell, judged


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    devices = [int(number) for number in options.devices.split(",")]
    done = _done(options.output) if options.add else set()
    counts: Counter[str] = Counter()
    with options.output.open("a" if options.add else "w") as lines:
        about = origin_of(["python", "-m", "tests.habits.sweep"], commit(ROOT, "src", "tests/habits") or "unknown")
        print(json.dumps({"kind": "run", **about}), file=lines)
        for backend in options.backends.split(","):
            for cell in _sweep(backend, _chosen(options.only, backend), devices, done):
                counts[cell.verdict if cell.as_expected else f"UNEXPECTED {cell.verdict}"] += 1
                print(json.dumps({"kind": "cell", **asdict(cell)}), file=lines, flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())))
    return 0 if not any(verdict.startswith("UNEXPECTED") for verdict in counts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.habits.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, separated by commas")
    parser.add_argument("--only", default="", help="habits whose name contains one of these, separated by commas")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file of JSON lines")
    parser.add_argument("--devices", default=",".join(map(str, DEVICES)), help="numbers, separated by commas")
    parser.add_argument(
        "--add", action="store_true", help="run only what the file lacks or has otherwise than expected"
    )
    return parser.parse_args(arguments)


def _chosen(only: str, backend: str) -> list[Habit]:
    words = only.split(",")
    return [
        habit
        for habit in every().values()
        if any(word in habit.name for word in words) and backend in habit.backends and not habit.missing()
    ]


def _done(path: Path) -> set[tuple[str, str, int]]:
    """Habit, backend and devices of the cells of a file that are as expected in their newest line."""
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    newest = {(line["habit"], line["backend"], line["devices"]): line for line in lines if line["kind"] == "cell"}
    return {cell for cell, line in newest.items() if line["as_expected"]}


def _sweep(
    backend: str, habits: list[Habit], devices: list[int], done: Container[tuple[str, str, int]]
) -> Iterator[Cell]:
    """The cells of a backend, without those that are done."""
    workers = Workers.of(backend)
    started, number = time.monotonic(), 0
    for habit in habits:
        missing = [each for each in devices if (habit.name, backend, each) not in done]
        if not missing:
            continue
        try:
            found = list(cells(workers, habit, missing))
        except (WorkerLost, RemoteError) as error:
            print(f"{backend} {habit.name}: plain Keras: {str(error)[:2000]}", file=sys.stderr, flush=True)
            continue
        for cell, judged in found:
            number += 1
            _print(cell, judged)
            yield cell
    behind = workers.close()
    print(
        f"{backend}: {number} cells in {time.monotonic() - started:.0f} s {behind or ''}", file=sys.stderr, flush=True
    )


def _print(cell: Cell, judged: Judged) -> None:
    if not cell.as_expected:
        head = f"{cell.backend} {cell.habit} on {cell.devices}: {cell.verdict} instead of {cell.expected}"
        print(
            f"{head}: {judged.difference:.1e} {judged.where[:300]}\n{judged.details[-500:]}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
