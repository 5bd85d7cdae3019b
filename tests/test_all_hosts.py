"""`abreast devices --all-hosts`: one table of what all processes have, printed by rank 0. No framework starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast import all_hosts, cli
from tests.harness.client import ROOT
from tests.launched.job import free_port, variables

SECRET = "a secret of these tests"


def start(rank: int, size: int, port: int, *options: str, **environ: str) -> subprocess.Popen[str]:
    common = {
        "PYTHONPATH": str(ROOT / "src"),
        "KERAS_BACKEND": "jax",
        "ABREAST_SECRET": SECRET,
        "CUDA_VISIBLE_DEVICES": "",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "abreast", "devices", *options],
        env={**os.environ, **common, **variables(rank, size, port, "127.0.0.1"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors
    finally:
        process.kill()


def test_rank_0_prints_what_all_ranks_have_and_the_others_are_silent() -> None:
    port = free_port()
    first, second = (start(rank, 2, port, "--all-hosts", "--json") for rank in range(2))
    code, output, errors = ended(first)
    assert (code, errors) == (0, "")
    assert ended(second) == (0, "", "")
    ranks = json.loads(output)
    assert [(each["rank"], each["local_rank"], each["devices"][0]["name"]) for each in ranks] == [
        (0, 0, "cpu:0"),
        (1, 1, "cpu:0"),
    ]
    assert ranks[0]["versions"] == ranks[1]["versions"] and ranks[0]["versions"]["keras"]


def test_hosts_are_started_by_hand_with_the_options_of_run() -> None:
    options = ("--hosts", "127.0.0.1,127.0.0.2", "--port", str(free_port()))
    alone: dict[str, Any] = dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"), "")
    first, second = (start(rank, 2, 0, *options, "--this", str(rank), **alone) for rank in range(2))
    code, output, errors = ended(first)
    assert (code, errors) == (0, ""), errors
    assert [line.split()[:4] for line in output.splitlines()] == [
        ["RANK", "HOST", "LOCAL", "DEVICE"],
        ["0", "127.0.0.1", "0", "cpu:0"],
        ["1", "127.0.0.2", "1", "cpu:0"],
    ]
    assert ended(second) == (0, "", "")


@pytest.mark.in_turn
def test_a_rank_that_does_not_come_is_named() -> None:
    code, output, errors = ended(start(0, 3, free_port(), "--all-hosts", ABREAST_JOIN_SECONDS="2"))
    assert (code, output) == (2, "")
    assert "ranks 1, 2 of 3 did not reach rank 0 within 2 s" in errors


def test_one_process_prints_its_own_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("ABREAST_CPU_DEVICES", "2")
    assert all_hosts.devices_of_all_hosts(as_json=False) == 0
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()] == ["DEVICE", "cpu:0", "cpu:1"]


def test_the_devices_of_this_host_are_listed_whatever_hosts_the_variables_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_HOSTS", "203.0.113.1,203.0.113.2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cli.main(["devices"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("cpu:0")
    monkeypatch.delenv("ABREAST_HOSTS")
    assert cli.main(["devices", "--this", "0"]) == 2


def test_what_differs_from_rank_0_is_a_line() -> None:
    def has(rank: int, framework: str | None, **packages: str) -> dict[str, Any]:
        versions = {"keras": "3.15.1", **packages}
        return {"rank": rank, "host": f"n{rank}", "framework": framework, "versions": versions, "unused_gpus": None}

    ranks = [has(0, "jax 0.10.2", numpy="2.3"), has(1, "jax 0.10.2", numpy="2.3"), has(2, "torch 2.13", keras="3.14")]
    assert all_hosts._differences(ranks) == [
        "rank 2 on host n2 has framework torch 2.13, and rank 0 has jax 0.10.2",
        "rank 2 on host n2 has keras 3.14, and rank 0 has 3.15.1",
        "rank 2 on host n2 has numpy (none), and rank 0 has 2.3",
    ]


def test_gpus_that_a_rank_cannot_use_are_named_with_the_rank() -> None:
    ranks = [{"rank": rank, "host": "n1", "unused_gpus": why} for rank, why in ((0, None), (1, "no CUDA"))]
    assert all_hosts._unused(ranks) == ["rank 1 on host n1: no CUDA"]


def test_more_processes_than_gpus_show_all_that_they_see(tmp_path: Path) -> None:
    fake = {"PYTHONPATH": f"{ROOT / 'tests' / 'fake_gpus'}:{ROOT / 'src'}", "CUDA_VISIBLE_DEVICES": "0,1"}
    port = free_port()
    processes = [start(rank, 3, port, "--all-hosts", "--json", **fake) for rank in range(3)]
    _, output, errors = ended(processes[0])
    assert [ended(process)[0] for process in processes[1:]] == [0, 0], errors
    names = [[device["name"] for device in each["devices"]] for each in json.loads(output)]
    assert names == [["gpu:0"], ["gpu:1"], ["gpu:0", "gpu:1"]]
