"""The meeting place of processes on Ray: rank 0 chooses it, and Ray Train brings it to the others."""

from __future__ import annotations

import os
import secrets

from abreast.errors import LaunchError
from abreast.hosts.listener import free_port
from abreast.launchers import World


def new_place() -> tuple[str, int, str]:
    """This host's address in Ray, a free port on it, and a new secret.

    The next port is free, too: processes on Ray meet there, because PyTorch may keep a store at the first one.
    """
    import ray

    address = ray.util.get_node_ip_address()
    return address, free_port(address, 2), secrets.token_hex(32)


def reached(world: World) -> World:
    """The world with an address of rank 0, also in the loop of a trainer that sets none, such as JaxTrainer.

    All ranks call this. It sets the variables that TorchTrainer would set. Raises `LaunchError` if Ray fails.
    """
    if world.source != "ray" or world.master_addr is not None:
        return world
    from ray.train.collective import broadcast_from_rank_zero

    try:
        address, port, secret = broadcast_from_rank_zero(new_place() if world.rank == 0 else None)
    except Exception as error:  # of Ray, which has several kinds
        hint = "`abreast.ray.trainer` or `abreast run --ray` starts the script with an address of rank 0"
        raise LaunchError(f"Ray did not bring rank 0's address to rank {world.rank}: {error}", hint) from error
    os.environ |= {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    os.environ.setdefault("ABREAST_SECRET", secret)
    return world.reached_at(address, port)
