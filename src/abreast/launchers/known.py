"""The known launchers, and the choice of the valid one if a process has variables of several.

A new launcher is a module with a function that reads its variables, an entry in `_READERS` (in order of priority) and
`_RANK_NAMES`, and a name in `world.LauncherName`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping

from abreast.errors import LaunchError
from abreast.launchers import by_variables, cluster_json, hosts, torchrun
from abreast.launchers.by_hand import by_hand
from abreast.launchers.hydra import hydra
from abreast.launchers.open_mpi import open_mpi
from abreast.launchers.ray_train import ray_train
from abreast.launchers.slurm import slurm
from abreast.launchers.variables import number, rank_and_size
from abreast.launchers.world import LauncherName, World


def rank() -> int:
    """The number of this process among those of its launcher, counted from 0; 0 if it runs alone.

    `torchrun`, `srun` and `mpirun` start a script once per process. `abreast run` and `DataParallel` run it once.

    Raises:
        LaunchError: the variables of the launcher contradict one another.

    Example:
        >>> import abreast
        >>> abreast.rank()
        0
    """
    return read_world().rank


def is_main_process() -> bool:
    """True on rank 0, the process that should print, save and upload.

    Raises:
        LaunchError: the variables of the launcher contradict one another.

    Example:
        >>> import abreast
        >>> if abreast.is_main_process():
        ...     print("saved once")
        saved once
    """
    return rank() == 0


def read_world(environ: Mapping[str, str] | None = None) -> World:
    """Read the variables of the innermost launcher. Raises `LaunchError`, with the variable and its value, if one is invalid.

    The innermost launcher started this process; outer ones may number other processes. From the inside out, the order is
    abreast, Ray, torchrun, MPI, srun, and launchers of one process per host. Numbers that any program may set (`RANK` without
    torchrun or Ray, `JAX_*`, `KERAS_DISTRIBUTION_*`, `TF_CONFIG`) must give the same rank as every launcher with the same number
    of processes. `--hosts` (`ABREAST_HOSTS`) has priority over all these, and must agree with each.
    """
    environ = {name: value for name, value in (os.environ if environ is None else environ).items() if value != ""}
    found = rank_and_size(environ, "ABREAST_RANK", "ABREAST_WORLD_SIZE")
    if found is not None:
        return World(*found, *found, platform.node(), "abreast")
    if (typed := by_hand(environ)) is not None:
        _check_that_launchers_agree(typed, environ)
        return typed
    world = next((world for read in _READERS if (world := read(environ)) is not None), None)
    if world is None:
        _refuse_horovod(environ)
        return World(0, 1, 0, 1, platform.node(), "alone")
    if world.source != "ray" and not (world.source == "torchrun" and torchrun.started_this(environ)):
        _check_agreement(world, environ)
    return world


_READERS: tuple[Callable[[Mapping[str, str]], World | None], ...] = (
    ray_train,
    torchrun.torchrun,
    open_mpi,
    hydra,
    slurm,
    by_variables.jax,
    by_variables.keras,
    cluster_json.tf_config,
    hosts.torch_pods,
    hosts.skypilot,
    hosts.aws_batch,
    hosts.sagemaker,
    cluster_json.vertex_ai,
)
_RANK_NAMES: dict[LauncherName, str] = {
    "ray": "RANK",
    "torchrun": "RANK",
    "openmpi": "OMPI_COMM_WORLD_RANK",
    "mpich": "PMI_RANK",
    "intel-mpi": "PMI_RANK",
    "slurm": "SLURM_PROCID",
    "jax": "JAX_PROCESS_ID",
    "keras": "KERAS_DISTRIBUTION_PROCESS_ID",
    "torch-pods": "PET_NODE_RANK",
    "skypilot": "SKYPILOT_NODE_RANK",
    "aws-batch": "AWS_BATCH_JOB_NODE_INDEX",
    "sagemaker": "SM_CURRENT_HOST",
    "vertex-ai": "CLUSTER_SPEC",
    "tf-config": "TF_CONFIG",
}
_JSON: tuple[LauncherName, ...] = ("vertex-ai", "tf-config")  # launchers with long variables
_ANYBODYS: tuple[LauncherName, ...] = ("torchrun", "jax", "keras", "tf-config")


def _check_that_launchers_agree(typed: World, environ: Mapping[str, str]) -> None:
    """Raise `LaunchError` if a launcher started this process with another number than in `--hosts`."""
    for other in filter(None, (read(environ) for read in _READERS)):
        if (other.rank, other.size) != (typed.rank, typed.size):
            ranks = [f"rank {each.rank} of {each.size}" for each in (typed, other)]
            raise LaunchError(
                f"--hosts makes this process {ranks[0]}, and {other.source} started it as {ranks[1]}",
                f"leave out --hosts (ABREAST_HOSTS): a launcher sets the ranks; or start this without {other.source}",
            )


def _check_agreement(world: World, environ: Mapping[str, str]) -> None:
    """Compare numbers that any program may set with all launchers, but a launcher's numbers only with such numbers."""
    readers = _READERS if world.source in _ANYBODYS else (by_variables.jax, by_variables.keras, cluster_json.tf_config)
    for other in filter(None, (read(environ) for read in readers)):
        if world.size == other.size and world.rank != other.rank:
            raise _two_ranks(world, other, environ)


def _two_ranks(world: World, other: World, environ: Mapping[str, str]) -> LaunchError:
    names = [_RANK_NAMES[each.source] for each in (world, other)]
    values = " and ".join(
        f"{name}={environ.get(name, each.rank) if each.source not in _JSON else each.rank}"
        for name, each in zip(names, (world, other), strict=True)
    )
    return LaunchError(
        f"{values} give this process two ranks of {world.size}",
        f"unset the variables of the launcher that did not start it: those of {world.source} or of {other.source}",
    )


def _refuse_horovod(environ: Mapping[str, str]) -> None:
    """Raise `LaunchError` for processes of `horovodrun`: each would train by itself, on all devices."""
    size = number(environ, "HOROVOD_SIZE")
    if size is None or size == 1:
        return
    raise LaunchError(
        f"horovodrun started {size} processes (HOROVOD_SIZE={size})",
        "start one process with `abreast run --devices N script.py`; torchrun, srun and mpirun start several",
    )
