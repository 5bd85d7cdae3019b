"""`run_script`: a script of ours in a process of its own, with one backend on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.harness.client import SCRIPTS_PATH


def run_script(backend: str, command: list[str], *, timeout_seconds: float, **environment: str) -> str:
    """What `python *command` printed to stdout. Fails with the end of its output if it ends with an error."""
    ours = {
        "PYTHONPATH": SCRIPTS_PATH,
        "KERAS_BACKEND": backend,
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **ours, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
