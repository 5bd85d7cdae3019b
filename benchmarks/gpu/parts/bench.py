"""`abreast bench` of a network beside its rivals, with the report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Place

_ROUNDS = 3


def run(place: Place) -> Found:
    return _benched(place, "convnet")


def resnet50(place: Place) -> Found:
    """ResNet-50, with bfloat16 too: its steps are as long as those of real trainings."""
    return _benched(place, "resnet50", "--precision", "bfloat16", "--batch", "64", "--steps", "10")


def _benched(place: Place, model: str, *options: str) -> Found:
    """The measurements of the command for one model; a side without a measurement is a problem."""
    with tempfile.TemporaryDirectory() as folder:
        output, report = Path(folder) / "bench.jsonl", Path(folder) / "report"
        command = [sys.executable, "-m", "abreast", "bench", model, "--backend", place.backend]
        command += ["--devices", str(place.devices), *place.command_options(), "--against", "keras,native"]
        command += ["--rounds", str(_ROUNDS), "--output", str(output), "--report", str(report), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=place.left_seconds())
        print(done.stdout, done.stderr, sep="\n")
        lines = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
        pages = sorted(path.name for path in report.glob("*.html"))
    return verdict(lines, done.returncode, done.stderr, pages, place)


def verdict(lines: list[dict[str, Any]], code: int, said: str, pages: list[str], place: Place) -> Found:
    medians = {line["case"]["side"]: line["median"] for line in lines}
    rows = {line["case"]["side"]: line["case"]["rows"] for line in lines}
    expected = ["abreast", "native", *(["keras"] if place.devices == 1 or place.backend != "torch" else [])]
    problems = [f"no measurement of {side}" for side in expected if side not in medians]
    if code:
        problems.append(f"exit code {code}: {(said.strip().splitlines() or [''])[-1]}")
    problems += [] if pages else ["no page was written"]
    facts = {"seconds_per_step": medians, "rows": rows, "pages": pages}
    if "abreast" not in medians:
        return Found("", facts, tuple(problems))
    ratios = [f"{medians['abreast'] / medians[side]:.2f}x {side}" for side in ("native", "keras") if side in medians]
    return Found(", ".join([f"{rows['abreast'] / medians['abreast']:,.0f} rows/s", *ratios]), facts, tuple(problems))
