"""`python -m tests.keras_own.measure` runs Keras's own tests plainly and placed, and keeps the outcomes by backend and file.

The lines go to `benchmarks/results/keras_tests.jsonl`; `page.py` makes a page of them. Imports no framework.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from abreast import provenance
from tests.harness.client import BACKENDS, ROOT
from tests.keras_own import exceptions, runs
from tests.keras_own.runs import EVERYTHING, NUM_DEVICES, Outcome

OUTPUT = ROOT / "benchmarks" / "results" / "keras_tests.jsonl"


def found(backend: str, plain: dict[str, Outcome], placed: dict[str, Outcome]) -> Iterator[dict[str, Any]]:
    """A line per file, per test that passes plainly only, and per reason for which tests did not pass plainly."""
    for file in sorted({one.file for one in plain.values()}):
        yield {"kind": "file", "backend": backend, "file": file, **_counts(file, plain, placed)}
    for one in runs.broken(plain, placed):
        why = exceptions.reason(backend, one.test)
        yield {"kind": "differs", "backend": backend, "test": one.test, "seen": one.reason, "reason": why}
    others = Counter((one.outcome, _without_folder(one.reason)) for one in plain.values() if one.outcome != "passed")
    for (outcome, reason), number in sorted(others.items()):
        yield {"kind": "plainly", "backend": backend, "outcome": outcome, "reason": reason, "tests": number}


def _without_folder(reason: str) -> str:
    return re.sub(r"/\S*/keras_tests/", "keras_tests/", reason)


def _counts(file: str, plain: dict[str, Outcome], placed: dict[str, Outcome]) -> dict[str, int]:
    before = [one for one in plain.values() if one.file == file]
    passed = [placed[one.test] for one in before if one.outcome == "passed" and one.test in placed]
    return {
        "tests": len(before),
        "passed_plainly": sum(one.outcome == "passed" for one in before),
        "passed_placed": sum(one.outcome == "passed" for one in passed),
        "with_steps": sum(one.steps > 0 for one in passed),
        "steps": sum(one.steps for one in passed),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.keras_own.measure", description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, separated by commas")
    parser.add_argument("--only", nargs="+", default=EVERYTHING, help="files or folders of keras/src")
    parser.add_argument("--outcomes", type=Path, help="folder with each test's outcome; a second run goes on there")
    options = parser.parse_args(arguments)
    folder = options.outcomes or Path(tempfile.mkdtemp(prefix="keras-own-"))
    backends = options.backends.split(",")
    new = [line for backend in backends for line in _of_backend(backend, folder, options.only)]
    _keep(backends, new)
    unnamed = [line for line in new if line["kind"] == "differs" and line["reason"] is None]
    for line in unnamed:
        print(f"{line['backend']}: {line['test']}: {line['seen']}", file=sys.stderr)
    return 1 if unnamed else 0


def _of_backend(backend: str, folder: Path, targets: Sequence[str]) -> list[dict[str, Any]]:
    plain = runs.run(backend, targets, folder / f"{backend}-plain.jsonl")
    placed = runs.run(backend, targets, folder / f"{backend}-placed.jsonl", placed=NUM_DEVICES)
    return list(found(backend, plain, placed))


def _keep(backends: Sequence[str], new: Sequence[dict[str, Any]]) -> None:
    """Put lines in the place of those that the file has of these backends."""
    commit = provenance.commit(ROOT, "src", "tests/keras_own") or "unknown"
    about = [
        {"kind": "run", "backend": name, "devices": NUM_DEVICES, **provenance.origin_of(provenance.command(), commit)}
        for name in backends
    ]
    old = [json.loads(line) for line in OUTPUT.read_text().splitlines()] if OUTPUT.exists() else []
    kept = [line for line in old if line["backend"] not in backends]
    OUTPUT.write_text("".join(json.dumps(line) + "\n" for line in [*kept, *about, *new]))


if __name__ == "__main__":
    sys.exit(main())
