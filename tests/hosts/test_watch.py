"""Processes of a job know of one that ends, dies, stops or is cut off, by rank and host, and how soon."""

from __future__ import annotations

import json
import platform
import signal
import time
from typing import Any

import pytest

from benchmarks.slow_links import ADDRESSES, NotPermitted, slow_link
from tests.hosts.job import Job
from tests.launched.emulated_hosts import pull_cable

pytestmark = pytest.mark.in_turn
HERE = platform.node()
# Each process prints when it has met the others, then what it knows when somebody is gone, and leaves with its second word.
_WATCHES = """
import json, os, sys, threading, time
from abreast.hosts import meet
from abreast.hosts.watch import Watch
from abreast.launchers import read_world
world = read_world()
begin = time.monotonic()
watch = Watch(meet(world, {}), float(os.environ.get("SILENT", 60)), lambda: str(world.rank), lambda: None)
watch.begin()
print("met", flush=True)
exec(os.environ.get("DO", ""))
watch.wait(lambda: watch.lost() is not None or len(watch.here()) < world.size - 1, 60)
print(json.dumps([watch.lost(), watch.left(), time.time()]), flush=True)
watch.leave(f"{watch.who(world.rank)} ended")
watch.wait(lambda: not watch.here(), 20)
watch.close()
"""


def watching(size: int, changed: dict[int, dict[str, Any]], **common: str) -> Job:
    job = Job(size, _WATCHES, **common)
    for rank in range(size):
        job.start(rank, **changed.get(rank, {}))
    for process in job.processes:
        assert process.stdout is not None and process.stdout.readline() == "met\n"
    return job


def known(job: Job, process: int) -> Any:
    stdout = job.processes[process].stdout
    assert stdout is not None
    return json.loads(stdout.readline())


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_process_that_is_killed_is_known_to_all_at_once(victim: int) -> None:
    with watching(3, {}) as job:
        killed = time.time()
        job.processes[victim].send_signal(signal.SIGKILL)
        for process in {0, 1, 2} - {victim}:
            lost, _, when = known(job, process)
            assert lost == f"rank {victim} on host {HERE} has died"
            assert when - killed < 5  # measured 0.0 to 0.1
        assert job.processes[victim].wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_is_stopped_is_known_after_its_silence(victim: int) -> None:
    with watching(3, {}, SILENT="4") as job:
        time.sleep(2)
        job.processes[victim].send_signal(signal.SIGSTOP)
        for process in {0, 1, 2} - {victim}:
            lost, _, _ = known(job, process)
            assert lost == f"rank {victim} on host {HERE} has been silent for 4 s (ABREAST_HANG_SECONDS)"
        job.processes[victim].send_signal(signal.SIGCONT)
        if victim:
            assert "rank 2 on host" in known(job, victim)[0]  # it learns that the others have given it up


def test_a_process_that_computes_in_c_is_not_silent() -> None:
    """A sleep that releases the interpreter stands for one call that lasts."""
    with watching(2, {1: {"DO": "import ctypes; ctypes.CDLL(None).sleep(10)"}}, SILENT="8") as job:
        time.sleep(10)
        job.processes[1].kill()
        assert known(job, 0)[0] == f"rank 1 on host {HERE} has died"


def test_a_job_that_is_suspended_as_a_whole_goes_on() -> None:
    with watching(2, {}, SILENT="8") as job:  # a busy machine may let one of them wait for 3 s after the other goes on
        for process in job.processes:
            process.send_signal(signal.SIGSTOP)
        time.sleep(10)
        for process in job.processes:
            process.send_signal(signal.SIGCONT)
        time.sleep(2)
        job.processes[1].kill()
        assert known(job, 0)[0] == f"rank 1 on host {HERE} has died"


def test_last_words_come_before_the_end_of_a_connection() -> None:
    """The first to leave is rank 0, through which all others hear of one another."""
    leaves = "watch.leave('rank 0 says goodbye')"
    with watching(3, {0: {"DO": leaves}}) as job:
        found = [known(job, process) for process in (1, 2)]
        assert [lost for lost, _, _ in found] == [None, None]
        assert all(left["0"] == "rank 0 says goodbye" for _, left, _ in found)
        known(job, 0)
        assert [process.wait(20) for process in job.processes] == [0, 0, 0]


def test_the_death_of_rank_0_is_known_also_after_its_last_words() -> None:
    """Without it the others hear nothing of one another any more."""
    waits = {"DO": "watch.wait(lambda: watch.lost() is not None, 30)"}
    with watching(3, {0: {"DO": "watch.leave('rank 0 says goodbye')"}, 1: waits, 2: waits}) as job:
        time.sleep(2)
        job.processes[0].kill()
        assert [known(job, process)[0] for process in (1, 2)] == [f"rank 0 on host {HERE} has died"] * 2


def test_a_host_that_is_cut_off_is_known_on_both_sides() -> None:
    try:
        with slow_link() as link, Job(2, _WATCHES, SILENT="4", MASTER_ADDR=ADDRESSES[0]) as job:
            job.port = 20000
            for rank, host in enumerate(link.hosts):
                job.start(rank, command=host.command(), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
            for process in job.processes:
                assert process.stdout is not None and process.stdout.readline() == "met\n"
            pull_cable(link.hosts[1])
            for rank, other in ((0, 1), (1, 0)):
                assert (
                    known(job, rank)[0] == f"rank {other} on host {HERE} has been silent for 4 s (ABREAST_HANG_SECONDS)"
                )
    except NotPermitted as error:
        pytest.skip(error.args[0])
