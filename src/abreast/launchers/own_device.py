"""The devices that a process uses among its visible ones: all if it is the only process of its host, else one GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abreast.errors import LaunchError
from abreast.launchers.world import World
from abreast.units import counted

# Variables with which a launcher shows each process its own GPUs.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def own_device(world: World, visible: Sequence[str], environ: Mapping[str, str]) -> str:
    """The one device that a process uses: its only visible GPU, or the GPU of its local rank; without GPUs `cpu:0`.

    Raises `LaunchError` if a host has more processes than GPUs.
    """
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
    """The devices of a process: all visible ones, unless its host has several processes and GPUs.

    Raises `LaunchError` if a host has more processes than GPUs.
    """
    if world.per == "host" or world.local_size == 1 or not visible[0].startswith("gpu:"):
        return tuple(visible)
    return (own_device(world, visible, environ),)
