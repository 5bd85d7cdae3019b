"""Processes of Slurm's srun. A batch script and the shell of `salloc` have the job's variables too, and run once."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abreast.errors import LaunchError
from abreast.launchers.variables import number, port_of_job, world_of
from abreast.launchers.world import World

# Slurm numbers its special steps (the shell of `salloc`, the batch script and others) down from the largest number.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


def slurm(environ: Mapping[str, str]) -> World | None:
    """The world of a step of srun. Rank 0 is on the step's first host; its port depends on the job, as in JAX's detection.

    Source: Slurm's page of srun, "OUTPUT ENVIRONMENT VARIABLES".
    """
    step = number(environ, "SLURM_STEP_ID")
    if step is None or step >= _FIRST_SPECIAL_STEP:
        return None
    size_name = next((name for name in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") if name in environ), "SLURM_NTASKS")
    if number(environ, size_name) in (None, 1):
        return None
    local_size = _local_size(environ)
    if local_size is not None:
        environ = {**environ, "SLURM_STEP_TASKS_PER_NODE": str(local_size)}
    local_names = ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")
    found = world_of(environ, "slurm", ("SLURM_PROCID", size_name), local_names, environ.get("SLURMD_NODENAME"))
    job = number(environ, "SLURM_JOB_ID")
    if found is None or job is None:
        return found
    is_elsewhere = found.rank == 0 and number(environ, "SLURM_NODEID") not in (0, None)  # --distribution=arbitrary
    # Parallel steps of one job need different ports; the first step has the port that JAX would use.
    return found.reached_at(None if is_elsewhere else first_host(environ), port_of_job(job + 1009 * step))


def first_host(environ: Mapping[str, str]) -> str | None:
    """The first host of a list in Slurm's short form: `node[01-03,7],gpu5` begins with node01."""
    name = next((name for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") if name in environ), "")
    text = environ.get(name)
    if text is None:
        return None
    first = re.match(r"(?:[^\[\],\s]|\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\])+(?=,|$)", text)
    if first is None:
        raise LaunchError(f"{name}={text!r} is not a list of hosts", "set MASTER_ADDR to the host of rank 0")
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", first[0])


def _local_size(environ: Mapping[str, str]) -> int | None:
    """Number of tasks on this host, from Slurm's short form: `2(x3),1` means 2, 2, 2, 1."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    text, node = environ.get(name), number(environ, "SLURM_NODEID") or 0
    if text is None:
        return None
    if not re.fullmatch(r"\d+(\(x\d+\))?(,\d+(\(x\d+\))?)*", text):
        raise LaunchError(f"{name}={text!r} is not a list of numbers of tasks")
    tasks = [int(n) for n, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]
    if node >= len(tasks):
        raise LaunchError(f"SLURM_NODEID={node} is not below the {len(tasks)} hosts of {name}={text!r}")
    return tasks[node]
