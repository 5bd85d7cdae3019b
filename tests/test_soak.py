"""A short form of `benchmarks/soak.py`: after 2,000 steps there are no additional threads, descriptors and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.harness.client import ROOT

EPOCHS, STEPS = 20, 100


@pytest.mark.full
@pytest.mark.parametrize("source", ["numpy", "generator", "py_dataset_threads"])
def test_2000_steps_leave_no_thread_descriptor_or_process(backend: str, source: str) -> None:
    cell = {"backend": backend, "source": source, "steps": EPOCHS * STEPS, "every": STEPS}
    done = subprocess.run(
        [sys.executable, "benchmarks/soak.py", "--cell", json.dumps(cell)],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert len(counts["threads"]) == EPOCHS
    half = EPOCHS // 2
    for what in ("descriptors", "processes"):
        assert max(counts[what][half:]) <= max(counts[what][:half]), (what, counts[what])
    # XLA's pools grow as they are used: measured 2 more. One that every epoch leaves would be 10 more.
    assert max(counts["threads"][half:]) <= max(counts["threads"][:half]) + 5, counts["threads"]
