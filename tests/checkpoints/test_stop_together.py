"""A signal to one of the processes that a launcher started: all end with 75 after the same step, and all go on from it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoints.signals import SCRIPT
from tests.launched.job import ended, free_port, start

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

RUN = "import sys; from abreast.cli import main; sys.exit(main(['run', '--quiet', '--checkpoint', *sys.argv[1:]]))"
STEPS = 50  # of the whole script; callbacks see the last one before an interruption twice, except between two epochs
EPOCH = 10


def ranks(backend: str, folder: Path) -> list[subprocess.Popen[str]]:
    port = free_port()
    return [start(RUN, rank, port, 2, str(folder / "ckpt"), *words(folder, rank), backend=backend) for rank in range(2)]


def words(folder: Path, rank: int) -> list[str]:
    return [str(SCRIPT), str(folder / f"log-{rank}"), str(folder / f"result-{rank}.npz")]


def num_steps(folder: Path, rank: int) -> int:
    log = folder / f"log-{rank}"
    return log.read_text().count("steps") if log.exists() else 0


def wait_until(is_true: Callable[[], bool], processes: list[subprocess.Popen[str]]) -> None:
    end = time.monotonic() + 300
    while not is_true() and time.monotonic() < end and all(each.poll() is None for each in processes):
        time.sleep(0.02)


@pytest.mark.parametrize("rank", [0, 1])
def test_all_processes_end_after_the_same_step_and_go_on(backend: str, rank: int, tmp_path: Path) -> None:
    processes = ranks(backend, tmp_path)
    try:
        wait_until(lambda: num_steps(tmp_path, 0) >= 5, processes)
        processes[rank].send_signal(signal.SIGTERM)
        ends = [ended(each, 300) for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert [each.returncode for each in processes] == [75, 75], ends
    done = num_steps(tmp_path, 0)
    assert 5 <= done < STEPS and num_steps(tmp_path, 1) == done
    assert "SIGTERM asked for an end: saved as fit0001-" in ends[rank][1]
    again = ranks(backend, tmp_path)
    ends = [ended(each, 300) for each in again]
    assert [each.returncode for each in again] == [0, 0], ends
    seen = [num_steps(tmp_path, each) for each in range(2)]
    assert seen == [STEPS + 1, STEPS + 1] or (seen == [STEPS, STEPS] and done % EPOCH == 0), done
