"""Measurements of the scripts here: each appends JSON lines to `results/<benchmark>.jsonl`; `table.py` makes tables of them.

`abreast.bench.lines` defines the fields of a line. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import provenance
from abreast.bench import lines
from abreast.bench.lines import STEADY_HEAP, quartiles
from abreast.provenance import machine, versions

__all__ = ["RESULTS", "STEADY_HEAP", "append", "commit", "line", "machine", "origin", "quartiles", "read", "versions"]

RESULTS = Path(__file__).parent / "results"


def line(benchmark: str, case: dict[str, Any], samples: Sequence[float], unit: str, **notes: Any) -> dict[str, Any]:
    """One measurement. `case` says what was measured; `notes` say how: the dropped warm-up, steps per sample."""
    return lines.line(benchmark, case, samples, unit, origin=origin(), **notes)


def origin() -> dict[str, Any]:
    """The provenance of a measurement made now: date, command, commit, machine and versions."""
    return provenance.origin_of(provenance.command(), commit())


def commit() -> str:
    """The measured commit, with `+changes` if the sources differ from it."""
    return provenance.commit(Path(__file__).parent.parent, "src", "benchmarks/*.py") or "unknown"


def append(new: Sequence[dict[str, Any]]) -> None:
    """Add lines to the file of their benchmark."""
    RESULTS.mkdir(exist_ok=True)
    for one in new:
        lines.append(RESULTS / f"{one['benchmark']}.jsonl", [one])


def read(benchmark: str) -> list[dict[str, Any]]:
    """All lines of a benchmark, oldest first; an empty list if it never ran."""
    return lines.read(RESULTS / f"{benchmark}.jsonl")
