"""`abreast check` of the README's script: plain Keras on one device, abreast on all, each step compared."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.gpu import programs
from benchmarks.gpu.place import Found, Place


def run(place: Place) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        words = [*programs.devices_of(place), *programs.digits("--epochs", "2")]
        code, said = programs.ended(programs.start(place, "check", *words, folder=Path(folder)), place)
    return verdict(code, said)


def verdict(code: int, said: str) -> Found:
    """The figure is the part of the verdict's first line before the word `of`."""
    lines = said.strip().splitlines() or ["nothing was printed"]
    problems = [f"exit code {code}: {lines[0]}"] if code else []
    return Found(lines[0].partition(" of ")[0], {"said": lines}, tuple(problems))
