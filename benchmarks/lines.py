"""Measurements of the scripts here: each appends JSON lines to `results/<benchmark>.jsonl`; `table.py` makes tables of them.

What a line holds is in `abreast.bench.lines`. Imports no framework.
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
    """One measurement. `case` says what was measured, `notes` how: what was dropped as warm-up, steps per sample."""
    return lines.line(benchmark, case, samples, unit, origin=origin(), **notes)


def origin() -> dict[str, Any]:
    """When, by what command, of what commit, on what machine and with what versions something is measured now."""
    return provenance.origin_of(provenance.command(), commit())


def commit() -> str:
    """The commit measured; `+changes` when the sources differ from it."""
    return provenance.commit(Path(__file__).parent.parent, "src", "benchmarks/*.py") or "unknown"


def append(new: Sequence[dict[str, Any]]) -> None:
    """Add lines to the file of their benchmark."""
    RESULTS.mkdir(exist_ok=True)
    for one in new:
        lines.append(RESULTS / f"{one['benchmark']}.jsonl", [one])


def read(benchmark: str) -> list[dict[str, Any]]:
    """All lines of a benchmark, oldest first; none when it never ran."""
    return lines.read(RESULTS / f"{benchmark}.jsonl")
