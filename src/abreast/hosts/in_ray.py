"""The meeting place of processes on Ray: rank 0 chooses it, and Ray Train brings it to the others."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from functools import cache

from abreast.errors import LaunchError
from abreast.hosts.listener import free_port
from abreast.launchers import World
from abreast.launchers.world import how_to_set_the_address


def place_of_rank_0(rank: int) -> tuple[str, int, str]:
    """Rank 0's address in Ray, a free port on it, and a new secret. All workers call this: Ray waits for all of them."""
    from ray.train.collective import broadcast_from_rank_zero

    found: tuple[str, int, str] = broadcast_from_rank_zero(_new_place() if rank == 0 else None)
    return found


def reached(world: World) -> World:
    """The world with an address of rank 0, also in the loop of a trainer that sets none, such as JaxTrainer.

    There, every worker must call this: Ray waits for all of them without a limit, and says so from time to time. The secret of
    this process becomes rank 0's. Raises `LaunchError` if Ray fails.
    """
    if world.source != "ray" or world.master_addr is not None:
        return world
    try:
        address, port = _place_for_this_process(world.rank)
    except Exception as error:  # of Ray, which has several kinds
        message = f"Ray did not bring rank 0's address to rank {world.rank}: {error}"
        raise LaunchError(message, how_to_set_the_address(world)) from error
    return replace(world, master_addr=address, master_port=port)


def _new_place() -> tuple[str, int, str]:
    """The next port is free, too: processes on Ray meet there, because PyTorch may keep a store at the first one."""
    import ray

    address = ray.util.get_node_ip_address()
    return address, free_port(address, 2), secrets.token_hex(32)


@cache
def _place_for_this_process(rank: int) -> tuple[str, int]:
    address, port, secret = place_of_rank_0(rank)
    os.environ.pop("ABREAST_SECRET_FILE", None)  # it would take priority
    os.environ["ABREAST_SECRET"] = secret
    return address, port
