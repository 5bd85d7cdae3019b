"""A launcher's report about this process, and the address of rank 0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from abreast.errors import LaunchError

LauncherName = Literal[
    "abreast",
    "--hosts",
    "ray",
    "torchrun",
    "openmpi",
    "mpich",
    "intel-mpi",
    "slurm",
    "jax",
    "keras",
    "torch-pods",
    "skypilot",
    "aws-batch",
    "sagemaker",
    "vertex-ai",
    "tf-config",
    "alone",
]
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class World:
    """The place of this process in its job. `source` is the launcher that numbered the processes.

    `local_rank` counts the processes on `host`. If the launcher does not report it, a host is assumed to have one process.
    `per`: whether the launcher started one process per device, or one per host with all its devices. Rank 0 listens at
    `master_addr` and `master_port`; they are None if unknown.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    source: LauncherName
    master_addr: str | None = None
    master_port: int | None = None
    per: Literal["device", "host"] = "device"

    @property
    def is_on_one_host(self) -> bool:
        return self.local_size == self.size

    def reached_at(self, address: str | None, port: int) -> World:
        """This world, with this address and port of rank 0 unless `MASTER_ADDR` and `MASTER_PORT` are set."""
        address = self.master_addr or (LOOPBACK if self.is_on_one_host else address)
        if address is None:
            return self
        return replace(self, master_addr=address, master_port=port if self.master_port is None else self.master_port)


def address_of_rank_0(world: World) -> tuple[str, int]:
    """Rank 0's address and port. Raises `LaunchError` if no launcher reports them, with a hint on how to set them."""
    if world.master_addr is None or world.master_port is None:
        message = f"{world.source} started {world.size} processes, but the address of rank 0 is not set"
        raise LaunchError(message, how_to_set_the_address(world))
    return world.master_addr, world.master_port


def how_to_set_the_address(world: World) -> str:
    where = "HOST is that of rank 0, PORT is free there"
    if world.source == "openmpi":
        return f"`mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=PORT ...`: {where}"
    if world.source in ("mpich", "intel-mpi"):
        return f"`mpiexec -genv MASTER_ADDR HOST -genv MASTER_PORT PORT ...`: {where}"
    if world.source == "ray":
        return "`abreast.ray.trainer` or `abreast run --ray` starts the script with one"
    return "set MASTER_ADDR and MASTER_PORT to an address of rank 0's host and a free port on it"
