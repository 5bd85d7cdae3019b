"""Parts run in processes of their own, within a budget; one that fails stops no other, and nothing is skipped in silence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from abreast.device_list import CPU_DEVICES
from benchmarks.gpu import machine as machines
from benchmarks.gpu import rows, runner, session
from benchmarks.gpu.catalogue import DEVICES, PARTS, Part
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.rows import Row
from benchmarks.gpu.runner import Budget, Job


def part(name: str, **settings: Any) -> Part:
    return Part(name, f"tests.gpu.planted:{name}", **{"per_backend": False, **settings})


def machine(simulated: int = 0, gpus: int = 1, **seen: int) -> Machine:
    modules = frozenset({*machines.BACKENDS, *machines.KERAS, *machines.IMAGES})
    return Machine(simulated, gpus, modules, seen=seen or dict.fromkeys(machines.BACKENDS, simulated or gpus))


def rows_of(*parts: Part, seconds: float = 100.0) -> list[Row]:
    here = machine(simulated=2)
    return list(runner.run(runner.jobs(parts, here), here, Budget(seconds)))


def test_a_part_that_fails_stops_no_other() -> None:
    found = rows_of(part("raises"), part("has_a_problem"), part("lacks"), part("dies"), part("passes"))
    assert [(row.part, row.status) for row in found] == [
        ("raises", "failed"),
        ("has_a_problem", "failed"),
        ("lacks", "missing"),
        ("dies", "failed"),
        ("passes", "passed"),
    ]
    raised, problem, lacking, dead, passed = found
    assert raised.why == "RuntimeError: planted" and "some words before" in raised.facts["log"]
    assert (problem.figure, problem.why) == ("0.5x", "it is half as fast")
    assert lacking.why == "a thing: not installed" and "a warning" in lacking.facts["log"]
    assert dead.why == "the process ended with code -9: last words"
    assert (passed.figure, passed.absent, passed.devices) == ("2 devices", ["a second thing"], 2)
    assert passed.facts == {"simulated": True} and passed.seconds > 0


def test_a_part_that_hangs_is_ended_with_what_it_started() -> None:
    hung, passed = rows_of(part("hangs", limit_seconds=6.0), part("passes"))
    assert (hung.status, hung.why, passed.status) == ("failed", "no end after 6 s", "passed")
    child = re.search(r"child (\d+)", hung.facts["log"])
    assert child is not None and is_gone(int(child[1]))


def is_gone(process: int) -> bool:
    """Within ten seconds, a process has ended or is a zombie."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_part_ends_with_its_run(tmp_path: Path) -> None:
    place = {"backend": "", "devices": 1, "simulated": True, "seconds": 60}
    command = [sys.executable, "-m", "benchmarks.gpu.body", "tests.gpu.planted:hangs", json.dumps(place)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    process = subprocess.Popen([*command, str(tmp_path / "result")], cwd=runner.ROOT, **pipes)
    assert process.stdout is not None
    child = int(process.stdout.readline().split()[1])
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert is_gone(child)


def test_parts_without_time_in_the_budget_are_reported() -> None:
    """A part needs half of its limit; and one that the budget ends, before its limit, has not failed."""
    (row,) = rows_of(part("passes", limit_seconds=60.0), seconds=29.2)
    assert (row.status, row.why) == ("left out", "29 s were left, of 60 s")
    (row,) = rows_of(part("hangs", limit_seconds=8.0), seconds=5.2)
    assert (row.status, row.why) == ("left out", "no end after 5 s, of 8 s")


def test_a_parts_limit_grows_with_the_budget_and_ends_with_it() -> None:
    now = [0.0]
    usual, long = (Budget(seconds, lambda: now[0]) for seconds in (480.0, 960.0))
    one = part("passes", limit_seconds=60.0)
    assert (usual.limit_seconds(one), long.limit_seconds(one)) == (60.0, 120.0)
    now[0] = 450.0
    assert (usual.limit_seconds(one), long.limit_seconds(one)) == (30.0, 120.0)


def test_parts_that_measure_no_time_run_first() -> None:
    found = rows_of(part("passes"), part("has_a_problem", alone=False))
    assert [row.part for row in found] == ["has_a_problem", "passes"]


def lacks(job: Job) -> str:
    return f"{job.part.name} {job.backend} {job.devices}: {job.lacks or 'ready'}"


def test_with_one_gpu_parts_that_need_two_are_missing() -> None:
    todo = runner.jobs((Part("a", "", counts=("one", "all")), Part("b", "")), machine())
    assert [lacks(job) for job in todo if job.backend == "jax"] == [
        "a jax 1: ready",
        "a jax 2: a second GPU",
        "b jax 1: ready",
    ]


def test_with_several_gpus_all_are_used() -> None:
    todo = runner.jobs((Part("a", "", counts=("one", "all")), Part("b", "")), machine(gpus=4))
    assert [lacks(job) for job in todo if job.backend == "torch"] == [
        "a torch 1: ready",
        "a torch 4: ready",
        "b torch 4: ready",
    ]


def test_a_framework_that_is_not_there_or_sees_no_gpu_is_missing_by_name() -> None:
    here = machine()
    here.modules -= {"tensorflow"}
    here.seen = {}
    probe = {job.backend: job for job in runner.jobs((DEVICES,), here)}
    assert {name: job.lacks for name, job in probe.items()} == {
        "jax": None,
        "tensorflow": "tensorflow: not installed",
        "torch": None,
    }
    here.note(probe["jax"].row(here, "passed", facts={"num_devices": 1}))
    here.note(probe["tensorflow"].row(here, "missing", why="tensorflow: not installed"))
    here.note(probe["torch"].row(here, "missing", why="a GPU for torch: it sees cpu:0"))
    todo = runner.jobs((Part("a", ""), Part("any", "", per_backend=False)), here)
    assert [lacks(job) for job in todo] == [
        "a jax 1: ready",
        "a tensorflow 1: tensorflow: not installed",
        "a torch 1: a GPU for torch: it sees cpu:0",
        "any jax 1: ready",
    ]


def test_missing_packages_have_the_names_to_install() -> None:
    here = machine()
    here.modules -= {"cv2", "simplejpeg", "keras"}
    assert here.lacks("images") == "opencv-python-headless, simplejpeg: not installed"
    assert here.lacks("keras") == "keras: not installed"
    assert here.lacks("gpu") is None
    assert machine(simulated=2).lacks("gpu") == "a GPU: the devices are simulated"


def test_simulated_devices_are_not_taken_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CPU_DEVICES, "4")
    monkeypatch.setattr(machines, "list_nvidia_devices", lambda environ: () if CPU_DEVICES in environ else (1, 2))
    assert (machines.look(0).num_gpus, machines.look(2).num_gpus) == (2, 0)
    job = Job(PARTS[0], "jax", 2)
    assert CPU_DEVICES not in runner.environment_of(job, simulated=False)
    assert runner.environment_of(job, simulated=True)["CUDA_VISIBLE_DEVICES"] == ""


def test_parts_that_need_devices_wait_for_the_frameworks_that_see_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that cannot use the GPUs fails once; its other parts are missing for that reason."""

    def run_job(job: Job, here: Machine, budget: Budget) -> Row:
        if job.part is DEVICES and job.backend == "torch":
            return job.row(here, "failed", why="ImportError: no libcuda")
        return job.row(here, "passed", facts={"num_devices": 3})

    monkeypatch.setattr(runner, "run_job", run_job)
    found = list(session.results((Part("a", ""),), machine(gpus=3), Budget(100.0)))
    assert {(row.part, row.backend): (row.status, row.devices, row.why) for row in found if row.backend != "jax"} == {
        ("devices", "tensorflow"): ("passed", 3, ""),
        ("devices", "torch"): ("failed", 3, "ImportError: no libcuda"),
        ("a", "tensorflow"): ("passed", 3, ""),
        ("a", "torch"): ("missing", 3, "ImportError: no libcuda"),
    }


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("", {"a jax", "a torch", "b jax", "b torch"}),
        ("a", {"a jax", "a torch"}),
        ("torch", {"a torch", "b torch"}),
        ("b,jax", {"b jax"}),
    ],
)
def test_parts_and_backends_can_be_chosen(only: str, expected: set[str]) -> None:
    todo = [Job(Part(name, ""), backend, 1) for name in ("a", "b") for backend in ("jax", "torch")]
    names = frozenset(filter(None, only.split(",")))
    chosen = [job for job in todo if session.wanted(job, names, {"a", "b"})]
    assert {f"{job.part.name} {job.backend}" for job in chosen} == expected


@pytest.mark.parametrize("text", ["cpu", "cpu:0", "gpu:1", "2", ""])
def test_other_devices_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hint: give gpu, or cpu:N"):
        session.simulated_of(text)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no part or backend contracts\nhint: bench, "):
        session.names_of("contracts,jax")


def test_a_row_is_a_line_with_its_provenance(tmp_path: Path) -> None:
    path = tmp_path / "new" / "gpu.jsonl"
    row = Row("contract", "jax", 1, "gpu", "passed", "18 of 18", facts={"largest": 1e-7}, seconds=3.5)
    rows.append(path, row, {"commit": "abc"})
    assert json.loads(path.read_text()) == {
        "benchmark": "gpu",
        "case": {"part": "contract", "backend": "jax", "devices": 1, "kind": "gpu"},
        "status": "passed",
        "figure": "18 of 18",
        "why": "",
        "absent": [],
        "facts": {"largest": 1e-7},
        "seconds": 3.5,
        "commit": "abc",
    }


def test_the_figure_of_the_cpu_is_the_newest_that_passed(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    for kind, status, figure in [
        ("cpu", "passed", "old"),
        ("cpu", "passed", "new"),
        ("cpu", "failed", "bad"),
        ("gpu", "passed", "fast"),
    ]:
        rows.append(path, Row("bench", "jax", 1, kind, status, figure), {})  # type: ignore[arg-type]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows.figures_on_the_cpu(lines) == {("bench", "jax", 1): "new"}


def test_environment_of_a_part_finds_the_sources_first() -> None:
    paths = runner.environment_of(Job(PARTS[0], "jax", 1), simulated=True)["PYTHONPATH"].split(os.pathsep)
    assert paths[:3] == [str(runner.ROOT / name) for name in ("src", "", "benchmarks")]
