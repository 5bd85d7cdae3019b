"""The accuracy benchmark, as a user runs it, on the published rows of `benchmarks/published/` and on damaged ones."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.client import ROOT

PUBLISHED = ROOT / "benchmarks" / "published"
Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    with (PUBLISHED / name).open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def accuracy(measurements: Path, machines: Path = PUBLISHED / "machines.csv") -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "benchmarks/plan_accuracy.py",
        "--measurements",
        str(measurements),
        "--machines",
        str(machines),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def average(output: str) -> list[float]:
    """Median, mean, p90, covered, abstained; then the null's median, mean and p90, in percent."""
    line = next(line for line in output.splitlines() if line.startswith("average over machines"))
    return [float(word.rstrip("%")) for word in line.split() if word.endswith("%")]


def test_the_table_is_small_and_every_row_names_its_source() -> None:
    rows = read("measurements.csv")
    assert len(rows) + len(read("machines.csv")) <= 60
    assert all(row["source"] and row["source_url_or_repo_path"] for row in rows)


def test_the_published_rows_are_predicted() -> None:
    result = accuracy(PUBLISHED / "measurements.csv")
    assert result.returncode == 0, result.stderr
    median, _, p90, covered, abstained, null_median, *_ = average(result.stdout)
    assert median < 10 and p90 < 30  # measured 5.3 and 7.4
    assert covered > 60 and abstained == 0
    assert null_median > 20


DAMAGE: dict[str, Callable[[dict[str, str]], object]] = {
    "a model that nobody knows": lambda row: row.update(model="next year's", params_millions=""),
    "a unit that nobody knows": lambda row: row.update(unit="furlongs/s"),
    "no batch": lambda row: row.update(batch_per_gpu="unstated"),
    "a framework and a method that nobody knows": lambda row: row.update(framework="New", method="magic"),
    "a number format that nobody knows": lambda row: row.update(dtype="fp4"),
    "a machine that nobody knows": lambda row: row.update(machine="mainframe"),
    "nothing about accumulation": lambda row: row.update(grad_accum=""),
    "no hosts": lambda row: row.update(n_nodes=""),
    "more hosts than devices": lambda row: row.update(n_nodes="4096"),
    "empty cells": lambda row: row.update(dict.fromkeys(("data", "notes", "scaling", "image_size_or_seq"), "")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_row_with_fewer_facts_is_predicted_too(damage: Callable[[dict[str, str]], object], tmp_path: Path) -> None:
    rows = read("measurements.csv")
    for row in rows:
        damage(row)
    result = accuracy(write(tmp_path / "rows.csv", rows))
    assert result.returncode == 0, result.stderr
    assert average(result.stdout)[4] == 0  # abstained


def test_facts_of_machines_may_be_missing(tmp_path: Path) -> None:
    rows = [dict.fromkeys(row, "") | {"machine": row["machine"]} for row in read("machines.csv")]
    result = accuracy(PUBLISHED / "measurements.csv", write(tmp_path / "machines.csv", rows))
    assert result.returncode == 0, result.stderr
    assert average(result.stdout)[4] == 0


def test_a_row_without_a_baseline_rate_is_abstained_from(tmp_path: Path) -> None:
    rows = read("measurements.csv")
    for row in rows:
        if row["row_id"] == row["baseline_row_id"]:
            row["images_per_sec"] = "n/a"
    result = accuracy(write(tmp_path / "rows.csv", rows))
    assert result.returncode == 0, result.stderr
    assert "abstained: DataError: images_per_sec is 'n/a'" in result.stderr


@pytest.mark.parametrize("column", ["images_per_sec", "baseline_row_id", "n_gpus"])
def test_a_missing_column_is_one_error(column: str, tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != column} for row in read("measurements.csv")]
    result = accuracy(write(tmp_path / "rows.csv", rows))
    assert result.returncode == 2
    assert f"lacks the columns {column}" in result.stderr and "hint:" in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


def test_a_file_that_is_not_there_or_has_no_rows_is_one_error(tmp_path: Path) -> None:
    assert "cannot be read" in accuracy(tmp_path / "none.csv").stderr
    empty = tmp_path / "empty.csv"
    empty.write_text((PUBLISHED / "measurements.csv").read_text().splitlines()[0] + "\n")
    assert "has no row to predict" in accuracy(empty).stderr


def test_the_reference_page_matches_the_lines_and_constants() -> None:
    command = [sys.executable, "benchmarks/plan_page.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
