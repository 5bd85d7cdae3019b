"""The ranks of a job meet, or every one of them ends with an error that names who is wrong, and why."""

from __future__ import annotations

import json
import platform
import socket
import time

import pytest

from tests.hosts.job import Job, started

pytestmark = pytest.mark.in_turn
HERE = platform.node()


def test_ranks_get_the_hellos_of_all_and_exchange_messages() -> None:
    with started(3, {rank: {"HELLO": json.dumps({"x": rank})} for rank in range(3)}) as job:
        said = [job.said(process) for process in range(3)]
    assert said[0] == said[1] == said[2]
    hellos, exchanged = json.loads(said[0])
    assert hellos == [{"x": rank, "rank": rank, "host": HERE} for rank in range(3)]
    assert exchanged == ["[b'0', b'11', b'222']", "[b'', b'', b'']"]


def test_a_rank_that_does_not_come_is_named_by_all_in_time() -> None:
    begin = time.monotonic()
    with Job(4, ABREAST_JOIN_SECONDS="2") as job:
        job.start(0)
        job.start(2)
        errors = job.errors()
    assert time.monotonic() - begin < 20
    assert errors[0] == errors[1]
    assert errors[0].startswith(
        f"ranks 1, 3 of 4 did not reach rank 0 within 2 s; there are rank 0 on host {HERE}, 2 on host {HERE}\nhint: "
    )


def test_a_rank_without_rank_0_ends_in_time() -> None:
    with Job(2, ABREAST_JOIN_SECONDS="1") as job:
        job.start(1)
        (error,) = job.errors()
    assert (
        f"rank 1 on host {HERE} has not reached rank 0 at 127.0.0.1:{job.port} within 1 s: Connection refused" in error
    )


def test_a_rank_that_comes_twice_ends_all() -> None:
    with Job(3) as job:
        job.start(0)
        job.start(1)
        job.start(1)
        time.sleep(1)
        job.start(2)
        errors = job.errors()
    assert set(errors) == {errors[0]}
    assert errors[0].startswith(f"rank 1 came twice, from host {HERE} and from host {HERE}\nhint: start all processes")


def test_a_rank_that_has_ended_may_come_again() -> None:
    with Job(3) as job:
        job.start(0)
        job.start(1)
        time.sleep(2)
        job.processes[1].kill()
        job.start(1)
        time.sleep(1)
        job.start(2)
        said = [job.said(process) for process in (0, 2, 3)]
    assert said[0] == said[1] == said[2] and said[0].startswith("[[")


def test_a_rank_that_counts_other_processes_ends_all() -> None:
    with Job(3) as job:
        job.start(0)
        job.start(1)
        time.sleep(1)
        job.start(3, size=4)
        errors = job.errors()
    assert f"rank 3 on host {HERE} counts 4 processes, and rank 0 on host {HERE} counts 3" in errors[0]
    assert errors[0] == errors[1]
    assert errors[2].startswith(f"rank 3 on host {HERE} cannot join rank 0")


def test_a_process_of_another_job_is_refused_and_the_job_goes_on() -> None:
    with Job(2) as job:
        job.start(0)
        job.start(1, TORCHELASTIC_RESTART_COUNT="7")
        (stranger,) = [job.said(1)]
        assert f"rank 1 on host {HERE} belongs to job 'torchrun TORCHELASTIC_RESTART_COUNT=7" in stranger
        job.start(1)
        assert job.said(0) == job.said(2) != ""
        assert "abreast: refused a process: rank 1" in job.processes[0].communicate()[1]


def test_a_process_with_another_secret_is_refused_with_what_to_do() -> None:
    with Job(2, ABREAST_JOIN_SECONDS="6") as job:
        job.start(0)
        job.start(1, ABREAST_SECRET="another secret, of 16 bytes")
        first, second = job.errors()
    assert "the two do not know the same secret\nhint: give every process of the job the same secret" in second
    assert first.startswith("rank 1 of 2 did not reach rank 0 within 6 s")


def test_a_port_that_is_taken_is_named() -> None:
    with Job(2, ABREAST_JOIN_SECONDS="1") as job, socket.create_server(("127.0.0.1", job.port)):
        job.start(0)
        (error,) = job.errors()
    assert (
        f"rank 0 on host {HERE} cannot listen on 127.0.0.1:{job.port}: Address already in use\nhint: set MASTER_PORT"
        in error
    )


def test_the_time_to_wait_is_a_number() -> None:
    with Job(2, ABREAST_JOIN_SECONDS="soon") as job:
        job.start(0)
        assert job.errors() == ["ABREAST_JOIN_SECONDS='soon' is not allowed\nhint: give a number of seconds above 0\n"]
