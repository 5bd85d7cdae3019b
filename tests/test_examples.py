"""`examples/images.py` runs on every backend, as a user would run it. `digits.py` runs with the README."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import ROOT
from tests.records.pieces import class_folder

EXAMPLE = ROOT / "examples" / "images.py"


def run(backend: str, output: Path, *arguments: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """The results of the example."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KERAS_BACKEND": backend,
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [sys.executable, *under, str(EXAMPLE), "--output", str(output), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "test accuracy" in done.stdout
    found: dict[str, Any] = json.loads((output / "result.json").read_text())
    return found


def test_the_example_learns_to_distinguish_photographs(backend: str, tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    found = run(backend, tmp_path)
    assert len(found["class_names"]) == 9 and found["num_tested"] > 60
    assert found["accuracy"] > 0.75  # by chance 0.11


def test_the_example_may_be_run_again(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    for _ in range(2):
        run("jax", tmp_path, "--epochs", "1")


def test_a_saved_model_is_fine_tuned_on_several_devices(backend: str, tmp_path: Path) -> None:
    """On a folder with other classes, with the model that a first run saved."""
    first = class_folder(tmp_path / "first", per_class=20)
    run(backend, tmp_path / "one", "--folder", str(first), "--epochs", "1")
    second = class_folder(tmp_path / "second", per_class=20, classes=("apple", "birch", "cloud"))
    start = str(tmp_path / "one" / "images.keras")
    arguments = ("--folder", str(second), "--start", start, "--epochs", "1")
    found = run(backend, tmp_path / "two", *arguments, under=("-m", "abreast", "run", "--cpu-devices", "2"))
    assert found["class_names"] == ["apple", "birch", "cloud"]
