"""A job of a real Slurm: `--signal` ends it with 75 before its time is over, it goes back into the queue, and goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness import slurm
from tests.harness.folder import Folder

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

# What the guide says, with the shortest time that Slurm knows. It looks at the times of jobs about every half minute.
JOB = """#!/bin/bash
#SBATCH --time=2 --ntasks={tasks} --signal=TERM@60 --requeue --open-mode=append --output=job.log
srun {python} -m abreast run --quiet --checkpoint ckpt {options} train.py
code=$?
echo "ended with $code" >> codes
[ $code = 75 ] && scontrol requeue $SLURM_JOB_ID
exit $code
"""
# A fit of 100 steps of 3 s, which goes on where it was; after the signal, steps are short.
TRAIN = """
import os, pathlib, time
from abreast.checkpoints import stop
place = pathlib.Path("place")
first = int(place.read_text()) if place.exists() else 0
with stop.in_fit():
    for step in range(first, 100):
        with open("steps", "a") as file:
            file.write(f"{step}\\n")
        time.sleep(0 if first else 3)
        if stop.requested():
            place.write_text(str(step + 1))
            stop.end(f"step-{step}")
"""


def test_a_job_that_slurm_asks_to_end_goes_back_into_the_queue_and_goes_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("train.py", TRAIN)
    folder.write("job.sh", JOB.format(python=sys.executable, tasks=1, options=""))
    (tmp_path / "slurm").mkdir()
    with slurm.two_nodes(tmp_path / "slurm") as cluster:
        run_job(folder, cluster)
    assert (tmp_path / "codes").read_text() == "ended with 75\nended with 0\n"
    assert [int(line) for line in (tmp_path / "steps").read_text().split()] == list(range(100))
    assert "abreast: SIGTERM asked for an end: saved as step-" in (tmp_path / "job.log").read_text()


def run_job(folder: Folder, cluster: slurm.Cluster, seconds: float = 420) -> None:
    """Submit job.sh and wait until it has ended with a code other than 75. Slurm keeps a requeued job back for two minutes."""
    environ = {**folder.environ(), **cluster.environ}
    subprocess.run(["sbatch", "job.sh"], cwd=folder.path, env=environ, check=True, timeout=60)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = folder.path / "codes"
        if codes.exists() and codes.read_text().split()[-1] != "75":
            return
        time.sleep(1)
    log = folder.path / "job.log"
    raise AssertionError(log.read_text() if log.exists() else "the job has not started")
