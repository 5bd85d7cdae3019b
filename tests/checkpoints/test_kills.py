"""A save that is killed before any of its system calls leaves whole checkpoints; strace kills it, and shows that it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import ROOT


def results(place: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.checkpoints.kills", str(place), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if "missing" in found:
        pytest.skip(found["missing"])
    return found


@pytest.mark.in_turn
def test_a_kill_before_any_call_of_a_save_loses_nothing(tmp_path: Path) -> None:
    found = results(tmp_path)
    assert found["fired"] == found["went_on"] == sum(found["calls"].values()) > 70
    assert set(found["states"]) == {"old", "both", "new"}
    assert {"write", "fsync", "rename", "unlink", "rmdir"} <= {*found["calls"]}


@pytest.mark.in_turn
def test_kills_of_a_save_without_a_rename_are_noticed(tmp_path: Path) -> None:
    """The negative control."""
    found = results(tmp_path, "--in-place")
    assert found["fired"] == sum(found["calls"].values())
    assert found["states"]["half"] > 5


@pytest.mark.in_turn
def test_a_failure_of_any_writing_call_is_one_clear_error(tmp_path: Path) -> None:
    found = results(tmp_path, "--failures")
    assert set(found["exits"]) == {"reported", "done"} and found["exits"]["done"] <= 4  # while it removes old parts
    assert found["went_on"] == found["total"] > 40
    assert set(found["states"]) == {"old", "both", "new"}
