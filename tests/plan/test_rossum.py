"""Rossum's tables: cited and predicted values are separate, and a file without Rossum's rows is one error."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness.client import ROOT

PUBLISHED = ROOT / "benchmarks" / "published"
LINES = ROOT / "benchmarks" / "results" / "rossum.jsonl"


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LINES.read_text().splitlines()]


def test_every_line_cites_its_source_and_the_data_left_out_of_its_constants() -> None:
    assert len(lines()) >= 16
    for line in lines():
        assert "rossumai/keras-multi-gpu@" in str(line["source"])
        assert line["fitted_without"] == line["case"]["machine"]


def test_the_cited_rates_are_in_the_intervals() -> None:
    """An interval promises four of five; these are few, and the widths were fitted with them too."""
    inside = [each["predicted_keras"]["low"] <= each["cited"] <= each["predicted_keras"]["high"] for each in lines()]
    assert sum(inside) >= 0.8 * len(inside)  # all of them


def test_the_figures_draw_cited_and_predicted_differently() -> None:
    for model in ("resnet50", "inception3"):
        drawing = (ROOT / f"docs/images/rossum-{model}.svg").read_text()
        assert drawing.count('class="measured c0"') == drawing.count('class="measured c4"') == 2
        assert drawing.count('class="measured c2"') == 0  # abreast was not measured there
        assert drawing.count('class="predicted c2"') == 2  # its curve, and the sample in the key


def test_a_file_without_the_machines_is_one_error(tmp_path: Path) -> None:
    with (PUBLISHED / "measurements.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if "rossum" not in row["machine"]]
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    command = [sys.executable, "benchmarks/rossum.py", "--measurements", str(path)]
    command += ["--machines", str(PUBLISHED / "machines.csv")]
    before = LINES.read_bytes()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("rossum: error: no row is of rossum-7gforce\nhint: ")
    assert LINES.read_bytes() == before
