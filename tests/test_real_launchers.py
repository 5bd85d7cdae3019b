"""`abreast run` under real launchers: each rank learns what one process learns.

`apt-get install openmpi-bin mpich slurm-wlm munge` brings them; a missing one skips its tests. Those of Slurm start
its daemons as root.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness import slurm
from tests.harness.client import ROOT
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import free_port
from tests.test_world_torchrun import SCRIPT

pytestmark = pytest.mark.full

MPIRUN = ["--oversubscribe", "--allow-run-as-root", "-np", "2"]


# In place of ssh: the command runs here, under the name of the other host.
SSH = """#!/bin/bash
while [[ "$1" == -* ]]; do shift; done
host="$1"; shift
exec unshare --uts sh -c "hostname $host; $*"
"""


@pytest.fixture(
    autouse=True,
    params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("jax", "tensorflow", "torch")],
)
def framework(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The framework of all ranks."""
    name: str = request.param
    skip_unless_installed(name)
    monkeypatch.setenv("KERAS_BACKEND", name)
    return name


@pytest.fixture
def ssh(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("bin") / "ssh"
    file.write_text(SSH)
    file.chmod(0o755)
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode:
        pytest.skip("this process may not change the name of a host")
    return str(file)


def train(words: Sequence[str], folder: Path, *options: str, **environ: str) -> list[Any]:
    """What each rank found, from files; the script is plain Keras, and each rank seeds it with its own number."""
    (folder / "train.py").write_text(SCRIPT)
    out = folder / f"out{len(list(folder.iterdir()))}"
    out.mkdir()
    common = {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
    }
    run = [sys.executable, "-m", "abreast", "run", "--quiet", *options, str(folder / "train.py"), "plain", str(out)]
    done = subprocess.run(
        [*words, *run], cwd=folder, env={**os.environ, **common, **environ}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(file.read_text()) for file in sorted(out.iterdir())]


def check(words: Sequence[str], folder: Path, num_ranks: int, *options: str, **environ: str) -> None:
    (alone,), ranks = train([], folder), train(words, folder, *options, **environ)
    assert len(ranks) == num_ranks
    for found in ranks:
        for name in ("history", "predicted", "weights"):
            assert largest_difference(alone[name], found[name]) < 1e-5, name


def launcher(*names: str) -> str:
    """The first of these programs that is installed."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


def version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout


def test_ranks_of_open_mpi_train_what_one_process_trains(tmp_path: Path) -> None:
    mpirun = launcher("mpirun.openmpi", "mpirun")
    if "Open MPI" not in version(mpirun) and "OpenRTE" not in version(mpirun):
        pytest.skip("mpirun is not Open MPI's")
    check([mpirun, *MPIRUN], tmp_path, 2)


def test_ranks_of_hydra_train_what_one_process_trains(tmp_path: Path) -> None:
    check([launcher("mpiexec.hydra"), "-np", "2"], tmp_path, 2)


def test_ranks_of_open_mpi_on_two_hosts_train_what_one_process_trains(tmp_path: Path, ssh: str) -> None:
    mpirun = launcher("mpirun.openmpi", "mpirun")
    if "OpenRTE" not in version(mpirun):
        pytest.skip("mpirun is not that of Open MPI 4")
    agent = ["--mca", "plm_rsh_agent", ssh, "--host", f"{platform.node()}:1,elsewhere:1"]
    check([mpirun, *MPIRUN, *agent], tmp_path, 2)


def test_ranks_of_hydra_on_two_hosts_need_an_address_and_train_with_one(tmp_path: Path, ssh: str) -> None:
    mpiexec = launcher("mpiexec.hydra")
    words = [mpiexec, "-launcher-exec", ssh, "-hosts", f"{platform.node()},elsewhere", "-ppn", "1", "-np", "2"]
    with pytest.raises(
        AssertionError, match=r"the address of rank 0 is not set\s+hint: `mpiexec -genv MASTER_ADDR HOST"
    ):
        train(words, tmp_path)
    address = ["-genv", "MASTER_ADDR", "127.0.0.1", "-genv", "MASTER_PORT", str(free_port())]
    check([*words, *address], tmp_path, 2)


def test_processes_of_torchrun_itself_train_what_one_process_trains(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    check([*torchrun, "--nproc-per-node", "2", "--no-python"], tmp_path, 2)
    check([*torchrun, "--nproc-per-node", "2", "--no-python"], tmp_path, 2, "--cpu-devices", "2")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    with slurm.two_nodes(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def test_tasks_of_slurm_on_one_node_train_what_one_process_trains(tmp_path: Path, two_nodes: slurm.Cluster) -> None:
    check(["srun", "-N", "1", "-n", "2"], tmp_path, 2, **two_nodes.environ)


def test_tasks_of_slurm_on_two_nodes_train_what_one_process_trains(tmp_path: Path, two_nodes: slurm.Cluster) -> None:
    check(["srun", "-N", "2", "-n", "3", "--overcommit"], tmp_path, 3, **two_nodes.environ)


def test_one_task_of_slurm_per_node_with_two_devices_trains_what_one_process_trains(
    tmp_path: Path, two_nodes: slurm.Cluster
) -> None:
    check(["srun", "-N", "2", "--ntasks-per-node", "1"], tmp_path, 2, "--cpu-devices", "2", **two_nodes.environ)


def test_torchrun_below_srun_trains_what_one_process_trains(tmp_path: Path, two_nodes: slurm.Cluster) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "--no-python"]
    rendezvous = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{two_nodes.free_port}"]
    check(["srun", "-N", "2", "-n", "2", *torchrun, *rendezvous], tmp_path, 2, **two_nodes.environ)
