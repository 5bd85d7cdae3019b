"""The rank of this process, the number of processes, and the host: the only reader of launchers' environment variables.

Knows torchrun, Open MPI, Slurm, Keras's own `KERAS_DISTRIBUTION_*`, and the workers that abreast starts; refuses horovodrun.
Starts no process and opens no connection.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from abreast.errors import LaunchError

LauncherName = Literal["abreast", "torchrun", "openmpi", "slurm", "keras", "alone"]

# Slurm numbers its special steps (the shell of `salloc`, the batch script and others) down from the largest number.
_FIRST_SPECIAL_SLURM_STEP = 0xFFFFFFF0


@dataclass(frozen=True)
class World:
    """The place of this process in its job. `source` is the launcher that numbered the processes.

    `local_rank` counts the processes on `host`. If the launcher does not report it, a host is assumed to have one process.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    source: LauncherName
    master_addr: str | None = None
    master_port: int | None = None


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

    An abreast worker under `torchrun` has its own rank, and `torchrun` under `srun` numbers more processes than `srun`
    does, so the innermost launcher counts.
    """
    environ = {name: value for name, value in (os.environ if environ is None else environ).items() if value != ""}
    readers: tuple[Callable[[Mapping[str, str]], World | None], ...] = (
        _abreast,
        _torchrun,
        _openmpi,
        _slurm,
        _keras,
        _horovod,
    )
    for read in readers:
        if (world := read(environ)) is not None:
            return world
    return World(0, 1, 0, 1, platform.node(), "alone")


def _abreast(environ: Mapping[str, str]) -> World | None:
    found = _rank_and_size(environ, "ABREAST_RANK", "ABREAST_WORLD_SIZE")
    return None if found is None else World(*found, *found, platform.node(), "abreast")


def _torchrun(environ: Mapping[str, str]) -> World | None:
    return _world(environ, "torchrun", ("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))


def _openmpi(environ: Mapping[str, str]) -> World | None:
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    return _world(environ, "openmpi", names, ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"))


def _slurm(environ: Mapping[str, str]) -> World | None:
    """A process started by `srun`. A batch script and the shell of `salloc` have the job's variables too, but run once."""
    step = _number(environ, "SLURM_STEP_ID")
    if step is None or step >= _FIRST_SPECIAL_SLURM_STEP:
        return None
    size_name = next((name for name in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") if name in environ), "SLURM_NTASKS")
    if _number(environ, size_name) in (None, 1):
        return None
    local_size = _slurm_local_size(environ)
    if local_size is not None:
        environ = {**environ, "SLURM_STEP_TASKS_PER_NODE": str(local_size)}
    return _world(environ, "slurm", ("SLURM_PROCID", size_name), ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"))


def _slurm_local_size(environ: Mapping[str, str]) -> int | None:
    """Number of tasks on this host, from Slurm's short form: `2(x3),1` means 2, 2, 2, 1."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    text, node = environ.get(name), _number(environ, "SLURM_NODEID") or 0
    if text is None:
        return None
    if not re.fullmatch(r"\d+(\(x\d+\))?(,\d+(\(x\d+\))?)*", text):
        raise LaunchError(f"{name}={text!r} is not a list of numbers of tasks")
    tasks = [int(n) for n, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]
    if node >= len(tasks):
        raise LaunchError(f"SLURM_NODEID={node} is not below the {len(tasks)} hosts of {name}={text!r}")
    return tasks[node]


def _keras(environ: Mapping[str, str]) -> World | None:
    """Read Keras's variables as `keras.distribution.initialize` does. JAX needs only the address of the first process."""
    addresses = environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").split(",")
    environ = dict(environ)
    if len(addresses) > 1:
        given = environ.setdefault("KERAS_DISTRIBUTION_NUM_PROCESSES", str(len(addresses)))
        if given != str(len(addresses)):
            message = (
                f"KERAS_DISTRIBUTION_NUM_PROCESSES={given!r}, but KERAS_DISTRIBUTION_JOB_ADDRESSES has {len(addresses)}"
            )
            raise LaunchError(message, "give one address per process")
    found = _rank_and_size(environ, "KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES")
    if found is None:
        return None
    process, size = found
    hosts = [address.strip().rpartition(":")[0] or address.strip() for address in addresses]
    here = [i for i, host in enumerate(hosts) if host == hosts[process]] if len(hosts) == size else [process]
    _, _, port = addresses[0].strip().rpartition(":")
    return World(
        *(process, size, here.index(process), len(here)),
        hosts[process] if len(hosts) == size and hosts[process] else platform.node(),
        "keras",
        hosts[0] or None,
        int(port) if port.isdecimal() else None,
    )


def _horovod(environ: Mapping[str, str]) -> World | None:
    """Raises `LaunchError` for processes of `horovodrun`: each would train by itself, on all devices."""
    size = _number(environ, "HOROVOD_SIZE")
    if size is None or size == 1:
        return None
    raise LaunchError(
        f"horovodrun started {size} processes (HOROVOD_SIZE={size})",
        "start one process with `abreast run --devices N script.py`; with PyTorch, torchrun, srun and mpirun start several",
    )


def _world(
    environ: Mapping[str, str], source: LauncherName, names: tuple[str, str], local_names: tuple[str, str]
) -> World | None:
    found = _rank_and_size(environ, *names)
    if found is None:
        return None
    _, size = found
    local_rank, local_size = _rank_and_size(environ, *local_names, optional_size=True) or (0, 1)
    if local_size > size:
        raise LaunchError(f"{local_names[1]}={local_size} is more than {names[1]}={size}", _HINT)
    port = _number(environ, "MASTER_PORT")
    if port is not None and port > 65535:
        raise LaunchError(f"MASTER_PORT={port} is not a port", "ports end at 65535")
    return World(*found, local_rank, local_size, platform.node(), source, environ.get("MASTER_ADDR"), port)


_HINT = "start every process with one launcher, or unset these variables to run alone"


def _rank_and_size(
    environ: Mapping[str, str], rank_name: str, size_name: str, optional_size: bool = False
) -> tuple[int, int] | None:
    number, size = _number(environ, rank_name), _number(environ, size_name)
    if number is None and size is None:
        return None
    if size is None and optional_size and number is not None:
        return number, number + 1
    if number is None or size is None:
        here, missing = (rank_name, size_name) if size is None else (size_name, rank_name)
        raise LaunchError(f"{here}={environ[here]!r} is set, but {missing} is not", _HINT)
    if not number < size:
        raise LaunchError(f"{rank_name}={number} is not below {size_name}={size}", _HINT)
    return number, size


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.strip().isdecimal()):
        raise LaunchError(f"{name}={text!r} is not a number", _HINT)
    return int(text)
