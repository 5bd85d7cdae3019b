"""`make gpu` as it is typed, on simulated devices: one part always, all of them in `make test-full`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import machine as machines
from benchmarks.gpu.catalogue import DEVICES, PARTS, USUAL_SECONDS
from tests.gpu.test_wheels import wheel
from tests.harness.client import ROOT
from tests.harness.installed import skip_unless_installed


def command(*options: str, timeout_seconds: float = 280.0, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables
    arguments = [sys.executable, "-m", "benchmarks.gpu", *options]
    return subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_seconds)


def test_a_missing_gpu_is_an_error() -> None:
    done = command(CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr == (
        "error: the NVIDIA driver shows no GPU\nhint: --devices cpu:2 tries the same with simulated devices\n"
    )


def test_missing_packages_are_named_with_a_hint(tmp_path: Path) -> None:
    code = (
        "import sys; from benchmarks.gpu import wheels, __main__ as command; wheels._OF_ABREAST = ('no-such-package',)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; sys.exit(command.main([]))"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "error: no-such-package: not installed\nhint: bring them along: make gpu-wheels\n"


def test_packages_of_a_folder_are_installed_only_for_the_run(tmp_path: Path) -> None:
    name = wheel(tmp_path, "abreast_planted", "1.0").name
    done = command("--wheels", str(tmp_path), CUDA_VISIBLE_DEVICES="", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"from {tmp_path}: {name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_wheels_of_another_python_are_an_error_with_a_hint(tmp_path: Path) -> None:
    wheel(tmp_path, "abreast_planted", "1.0").rename(tmp_path / "abreast_planted-1.0-cp27-none-any.whl")
    done = command("--wheels", str(tmp_path))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 2
    assert f"hint: collect them for this Python: make gpu-wheels GPU_PYTHON={version}\n" in done.stderr


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_part_on_simulated_devices_gives_a_table_and_lines(tmp_path: Path) -> None:
    skip_unless_installed("jax")
    output = tmp_path / "gpu.jsonl"
    done = command("--devices", "cpu:2", "--only", "jax,device trace", "--seconds", "250", "--output", str(output))
    assert done.returncode == 0, done.stderr
    table = done.stdout.splitlines()
    assert table[0].split()[:4] == ["what", "backend", "devices", "result"]
    assert [line.split()[:2] for line in table[1:3]] == [["devices", "jax"], ["device", "trace"]]
    assert "2 passed, 0 failed, 0 missing, 0 left out" in table
    devices, trace = [json.loads(line) for line in output.read_text().splitlines()]
    assert devices["facts"]["num_devices"] == 2
    assert trace["case"] == {"part": "device trace", "backend": "jax", "devices": 2, "kind": "cpu"}
    assert trace["facts"]["steps"] == [4, 5, 6] and trace["figure"] in done.stdout
    assert {"date", "command", "commit", "machine", "versions"} <= trace.keys()


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.timeout(int(3 * USUAL_SECONDS))
def test_all_parts_pass_on_simulated_devices_and_skipped_ones_are_reported(tmp_path: Path) -> None:
    """With twice the usual time, since a GPU takes less time than two cores for most of it."""
    output = tmp_path / "gpu.jsonl"
    seconds = 2 * USUAL_SECONDS
    options = ("--devices", "cpu:2", "--seconds", f"{seconds:.0f}", "--output", str(output))
    done = command(*options, timeout_seconds=1.2 * seconds)
    print(done.stdout)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["why"] for line in lines if line["status"] == "failed"] == [], done.stdout
    assert done.returncode == 0
    expected = [(part.name, len(machines.BACKENDS) if part.per_backend else 1, len(part.counts)) for part in PARTS]
    assert len(lines) == len(machines.BACKENDS) + sum(backends * counts for _, backends, counts in expected)
    assert {line["case"]["part"] for line in lines} == {DEVICES.name, *(part.name for part in PARTS)}
    there = {name for name in machines.BACKENDS if importlib.util.find_spec(name) is not None}
    missing = {(line["case"]["part"], line["case"]["backend"]) for line in lines if line["status"] == "missing"}
    assert {backend for part, backend in missing if part == DEVICES.name} == set(machines.BACKENDS) - there
