"""The devices that a process takes of those that it sees: one (PyTorch), or, where it is the only one of its host, all (JAX)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abreast import typed_command
from abreast.errors import LaunchError
from abreast.launchers.world import World
from abreast.units import counted

# With one of these, a launcher shows each process its own GPUs.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def own_device(world: World, visible: Sequence[str], environ: Mapping[str, str]) -> str:
    """The device that a process takes of those that it sees: its only GPU, or the GPU of its local rank; without GPUs `cpu:0`.

    Raises `LaunchError` where the processes of a host outnumber its GPUs, or one process shall drive several devices.
    """
    if world.per == "host" and len(visible) > 1:
        raise _one_per_host(world, len(visible))
    if not visible[0].startswith("gpu:"):
        return "cpu:0"
    shown = next((f"{name}={environ[name]}" for name in _VISIBLE if environ.get(name)), None)
    if len(visible) == 1 and (shown is not None or world.local_size == 1):
        return visible[0]
    if world.local_rank < len(visible):
        return visible[world.local_rank]
    seen = f"sees {counted(len(visible), 'GPU')}{'' if shown is None else f' ({shown})'}"
    raise LaunchError(
        f"the process with local rank {world.local_rank} on {world.host} {seen}",
        f"start at most {len(visible)} per host, or show each process its own GPU (`srun --gpus-per-task 1`)",
    )


def own_devices(world: World, visible: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The devices of a process that can drive several: all that it sees, unless its host has several processes and GPUs.

    Raises `LaunchError` where the processes of a host outnumber its GPUs.
    """
    if world.per == "host" or world.local_size == 1 or not visible[0].startswith("gpu:"):
        return tuple(visible)
    return (own_device(world, visible, environ),)


def _one_per_host(world: World, num_devices: int) -> LaunchError:
    seen = f"this one sees {num_devices} devices"
    where = f"--master-addr {world.master_addr or 'HOST'} --master-port {world.master_port or 29500}"
    numbers = f"--nnodes {world.size} --node-rank {world.rank} --nproc-per-node {num_devices}"
    return LaunchError(
        f"{world.source} started one process per host, and {seen}; PyTorch needs one process per device",
        f"on this host, start `torchrun {numbers} {where} {typed_command.under_torchrun()}`",
    )
