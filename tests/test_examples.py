"""`examples/images.py` and `killed.py` run on every backend, as a user would run them. `digits.py` runs with the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import ROOT
from tests.harness.script import run_script
from tests.records.pieces import class_folder

EXAMPLE = ROOT / "examples" / "images.py"


def run(backend: str, output: Path, *arguments: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """The results of the example."""
    command = [*under, str(EXAMPLE), "--output", str(output), *arguments]
    assert "test accuracy" in run_script(backend, command, timeout_seconds=240)
    found: dict[str, Any] = json.loads((output / "result.json").read_text())
    return found


@pytest.mark.in_turn
def test_photographs_are_classified_and_the_saved_model_is_fine_tuned_on_several_devices(
    backend: str, tmp_path: Path
) -> None:
    """The second run is on a folder with other classes, and on one backend in the folder of the first run."""
    pytest.importorskip("skimage")
    found = run(backend, tmp_path)
    assert len(found["class_names"]) == 9 and found["num_tested"] > 60
    assert found["accuracy"] > 0.75  # by chance 0.11
    other = class_folder(tmp_path / "other", per_class=20, classes=("apple", "birch", "cloud"))
    arguments = ("--folder", str(other), "--start", str(tmp_path / "images.keras"), "--epochs", "1")
    output = tmp_path if backend == "jax" else tmp_path / "second"
    found = run(backend, output, *arguments, under=("-m", "abreast", "run", "--cpu-devices", "2"))
    assert found["class_names"] == ["apple", "birch", "cloud"]


@pytest.mark.full
@pytest.mark.usefixtures("all_frameworks")  # scikit-learn, which `HIDDEN_PACKAGES` hides
def test_a_training_that_is_killed_ends_like_one_that_was_not(backend: str, tmp_path: Path) -> None:
    words = [
        str(ROOT / "examples" / "killed.py"),
        "--backend",
        backend,
        "--seed",
        "1",
        "--output",
        str(tmp_path / "out"),
    ]
    out = run_script(backend, [*words, "--kills", "1", "--epochs", "8"], timeout_seconds=240)
    assert "SIGKILL on" in out and "SIGTERM, 75 on" in out and "ended on" in out
    assert "largest difference of a weight: " in out
