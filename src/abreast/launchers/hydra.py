"""Processes of Hydra, the mpiexec of MPICH and of Intel MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from abreast.launchers.variables import port_of_job, world_of
from abreast.launchers.world import World


def hydra(environ: Mapping[str, str], root: Path = Path("/")) -> World | None:
    """The world that Hydra reports. It has no address of rank 0, so only ranks on one host find it by themselves."""
    if "MPI_LOCALNRANKS" not in environ:  # `srun --mpi=pmi2` sets PMI_RANK too
        return None
    found = world_of(environ, "mpich", ("PMI_RANK", "PMI_SIZE"), ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"))
    if found is None:
        return None
    job = environ.get("I_MPI_HYDRA_UUID")
    if job is not None:
        found = replace(found, source="intel-mpi")
    elif found.is_on_one_host:
        job = _proxy(root)
    return found if job is None else found.reached_at(None, port_of_job(job))


def _proxy(root: Path) -> str | None:
    """The process id of Hydra's proxy on this host, the nearest ancestor without a rank; MPICH gives its jobs no name."""
    process = os.getpid()
    while process > 1:
        folder = root / "proc" / str(process)
        try:
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (root / "proc" / str(process) / "environ").read_bytes()
        except (OSError, IndexError, ValueError):
            return None
        if b"PMI_RANK=" not in variables:
            return str(process)
    return None
