"""`abreast run --dry-run`: what a process knows of its job, before anything is trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import recorded_launchers as recorded
from tests.harness.client import ROOT
from tests.harness.installed import skip_unless_installed
from tests.recorded_launchers import Variables

FAKE_GPUS = ROOT / "tests" / "fake_gpus"


def dry_run(folder: Path, environ: Variables, *options: str) -> Any:
    skip_unless_installed("torch")
    (folder / "train.py").write_text("raise SystemExit('nobody runs this')\n")
    return subprocess.run(
        [sys.executable, "-m", "abreast", "run", "--dry-run", *options, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "KERAS_BACKEND": "torch", **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def facts(folder: Path, environ: Variables) -> dict[str, Any]:
    done = dry_run(folder, environ, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_place_of_a_process_is_printed_as_text(tmp_path: Path) -> None:
    done = dry_run(tmp_path, recorded.slurm_22_05_with_a_gpu_per_task(1))
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["launcher", "slurm"],
        ["rank", "1"],
        ["size", "2"],
        ["host", "n01"],
        ["local_rank", "1"],
        ["local_size", "2"],
        ["one_process_per", "device"],
        ["rank_0_address", "127.0.0.1"],
        ["rank_0_port", "61444"],
        ["ranks_meet_at", "127.0.0.1:61444"],
        ["interface", "lo"],
        ["backend", "torch"],
        ["devices", "cpu:0"],
    ]


def test_a_process_without_a_launcher_takes_the_devices_that_are_asked_for(tmp_path: Path) -> None:
    done = dry_run(tmp_path, {}, "--json", "--cpu-devices", "4", "--devices", "2")
    found = json.loads(done.stdout)
    assert (found["launcher"], found["one_process_per"], found["rank_0_port"]) == ("alone", None, None)
    assert found["devices"] == ["cpu:0", "cpu:1"]


@pytest.fixture
def cuda_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A package `torch` with CUDA, as far as its files are read, beside two GPUs that the driver sees."""
    package = tmp_path / "build" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('nobody imports this')\n")
    (package / "version.py").write_text("__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\nhip = None\n")
    return {"PYTHONPATH": os.pathsep.join([str(package.parent), str(FAKE_GPUS), str(ROOT / "src")])}


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        (recorded.torchrun_2_13(1), ["gpu:1"]),
        (recorded.slurm_22_05(3), ["gpu:1"]),
        (recorded.slurm_22_05_with_a_gpu_per_task(1), ["gpu:0"]),
    ],
)
def test_a_process_takes_the_gpu_that_its_launcher_gives_it(
    tmp_path: Path, cuda_build: dict[str, str], environ: Variables, devices: list[str]
) -> None:
    assert facts(tmp_path, {**environ, **cuda_build})["devices"] == devices


def test_the_only_process_of_a_host_takes_all_its_gpus(tmp_path: Path, cuda_build: dict[str, str]) -> None:
    assert facts(tmp_path, {**recorded.trainjob_torch(1), **cuda_build})["devices"] == ["gpu:0", "gpu:1"]


def test_variables_that_contradict_one_another_are_the_only_output(tmp_path: Path) -> None:
    done = dry_run(tmp_path, {**recorded.open_mpi_5_0_11(1), "RANK": "0", "WORLD_SIZE": "2"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "abreast: error: RANK=0 and OMPI_COMM_WORLD_RANK=1 give this process two ranks of 2\nhint: unset "
    )


def test_an_address_that_is_missing_is_an_error_after_the_facts(tmp_path: Path) -> None:
    done = dry_run(tmp_path, recorded.mpich_4_0_2_on_two_hosts(1))
    assert (done.returncode, "rank_0_address   -" in done.stdout) == (2, True)
    assert (
        "mpich started 2 processes, but the address of rank 0 is not set\nhint: `mpiexec -genv MASTER_ADDR"
        in done.stderr
    )


def test_no_framework_is_imported(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    code = (
        "import sys; from abreast import cli; code = cli.main(['run', '--dry-run', '--json', 'train.py']); "
        "sys.exit(code or str({'keras', 'torch', 'jax', 'tensorflow'} & set(sys.modules)))"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == "set()\n"


def test_json_without_a_dry_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    words = [sys.executable, "-m", "abreast", "run", "--json", "train.py"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "abreast: error: --json is for what --dry-run prints\nhint: add --dry-run, or leave it out\n",
    )
