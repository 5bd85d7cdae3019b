"""A short form of the campaign `faults.py`, and whether its checks see what they shall see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.slow_links import NotPermitted
from tests.harness.client import BACKENDS
from tests.harness.installed import skip_unless_installed
from tests.launched.emulated_hosts import emulated_hosts
from tests.launched.faults import Draw, errors_in, summary, trial
from tests.launched.leftovers import Leftovers


@pytest.fixture(autouse=True)
def _hosts() -> None:
    try:
        with emulated_hosts(1):
            pass
    except NotPermitted as error:
        pytest.skip(error.args[0])


@pytest.mark.full
@pytest.mark.parametrize(
    ("backend", "moment"), [*zip(BACKENDS, ("in steps", "joining the framework", "compiling"), strict=True)]
)
def test_the_death_of_rank_0_is_named_by_all(backend: str, moment: str) -> None:
    skip_unless_installed(backend)
    found = trial(Draw(0, backend, "2x1:host", 0, "kill", moment, waits=moment != "compiling", delay=0.1))
    assert found["fired"] == "exit code -9"
    assert found["wrong"] == []


@pytest.mark.full
def test_without_a_watch_a_draw_is_wrong() -> None:
    skip_unless_installed("tensorflow")
    draw = Draw(0, "tensorflow", "2x1:host", 0, "stop", "in steps", waits=True, delay=0.0)
    wrong = trial(draw, watch=False, give_up_seconds=30)["wrong"]
    assert wrong[0] == "rank 1 ended after None s"  # until the campaign gives up, and ends it


def test_a_draw_follows_from_its_seed_and_number() -> None:
    draws = [Draw.of(3, number, BACKENDS) for number in range(200)]
    assert draws == [Draw.of(3, number, BACKENDS) for number in range(200)]
    assert {draw.kind for draw in draws} == {"kill", "stop", "cut"} and len({draw.moment for draw in draws}) == 11
    assert not any(draw.kind == "cut" and draw.shape.startswith("1x") for draw in draws)


def test_the_processes_of_a_host_that_is_cut_off_name_one_beyond_the_cable() -> None:
    draw = Draw(0, "jax", "2x2:device", 3, "cut", "in steps", waits=True, delay=0.0)
    assert draw.gone == {0: {2, 3}, 1: {2, 3}, 2: {0, 1}, 3: {0, 1}}


def test_the_errors_of_a_process_are_counted() -> None:
    report = "abreast: rank 0 on host a has died; this process of the job ends too"
    raised = "abreast.errors.WorkerError: rank 0 on host a has died"
    waits = "abreast: rank 0 waits for rank 1 of 2, for 30 s until now"
    assert errors_in(f"{waits}\n{report}\nhint: look\n") == [report]
    assert errors_in(f"[rank1]: {raised}\nother\n[rank1]: {raised}\n") == [raised]
    assert errors_in(f"{raised}\n{report}\n") == [report, raised]


def test_what_a_job_leaves_is_found(tmp_path: Path) -> None:
    mark = f"FAULT_JOB=test {os.getpid()}"
    listens = "import socket; server = socket.create_server(('127.0.0.1', 7)); print(flush=True); input()"
    with emulated_hosts(1) as hosts:
        leftovers = Leftovers(mark, tmp_path, hosts, patience_seconds=0.1)
        assert leftovers.found() == []
        (tmp_path / "left").touch()
        words = hosts[0].command(sys.executable, "-c", listens)
        environ = {**os.environ, "FAULT_JOB": mark.partition("=")[2]}
        with subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"\n"
            found = leftovers.found()
            process.kill()
    assert [line.split()[0] for line in found] == ["process", "file", "listener"]


def test_times_are_those_of_processes() -> None:
    common: dict[str, Any] = {"kind": "kill", "moment": "in steps", "backend": "jax", "shape": "3x1:host"}
    found: list[dict[str, Any]] = [
        {**common, "seconds": [1.0, 3.0], "wrong": []},
        {**common, "seconds": [2.0, None], "wrong": ["late"]},
    ]
    table = summary(found)
    assert (table["draws"], table["as_promised"], table["backend"]) == (2, 1, {"jax": [2, 1]})
    assert table["kill, after the meeting"] == {"draws": 2, "p50_seconds": 2.0, "p99_seconds": 3.0, "max_seconds": 3.0}
