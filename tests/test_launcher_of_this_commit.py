"""One real launcher per commit: Open MPI, MPICH and Slurm take turns as far as they are installed, and so do the backends.

Where Slurm is installed and starts no task, as in some containers, its turn is skipped.

`tests/test_real_launchers.py` has all of them, for `make test-full`. torchrun is in `tests/test_world_torchrun.py`; Ray takes too
long, see `make test-ray`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import slurm
from tests.harness.client import BACKENDS
from tests.harness.in_turn import turn
from tests.harness.installed import skip_unless_installed
from tests.test_real_launchers import MPIRUN, check


def _open_mpi(folder: Path) -> None:
    check([_PROGRAMS["Open MPI"], *MPIRUN], folder, 2)


def _mpich(folder: Path) -> None:
    check([_PROGRAMS["MPICH"], "-np", "2"], folder, 2)


def _slurm(folder: Path) -> None:
    daemons = folder / "slurm"
    daemons.mkdir()
    (folder / "train").mkdir()
    with slurm.two_nodes(daemons) as cluster:
        check(["srun", "-N", "2", "-n", "2"], folder / "train", 2, **cluster.environ)


_PROGRAMS = {"Open MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra", "Slurm": "slurmctld"}
_RUNS: dict[str, Callable[[Path], None]] = {"Open MPI": _open_mpi, "MPICH": _mpich, "Slurm": _slurm}


def _is_installed(name: str) -> bool:
    return shutil.which(_PROGRAMS[name]) is not None and (name != "Slurm" or os.geteuid() == 0)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_ranks_of_a_launcher_train_what_one_process_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _is_installed(name):
        pytest.skip(f"{name} is not installed, or may not be started")
    installed = [each for each in _PROGRAMS if _is_installed(each)]
    round_, place = divmod(turn() or 0, len(installed))
    if installed[place] != name:
        pytest.skip(f"{name} has its turn with another commit")
    backend = BACKENDS[round_ % len(BACKENDS)]
    skip_unless_installed(backend)
    monkeypatch.setenv("KERAS_BACKEND", backend)
    _RUNS[name](tmp_path)
