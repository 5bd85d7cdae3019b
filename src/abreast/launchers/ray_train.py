"""Workers of Ray Train, and of everything else on Ray that sets torch's variables."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from abreast.launchers.variables import world_of
from abreast.launchers.world import World


def ray_train(environ: Mapping[str, str]) -> World | None:
    """The world of the variables that Ray's TorchTrainer and `abreast run --ray` set; else of Ray's own context.

    A worker that is alone on its host may drive all devices that Ray gave it.
    """
    if "RAY_RAYLET_PID" not in environ or "TORCHELASTIC_RUN_ID" in environ:
        return None
    found = world_of(environ, "ray", ("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if found is None:
        found = _of_context()
    return replace(found, per="host") if found is not None and found.local_size == 1 else found


def _of_context() -> World | None:
    """A worker of a trainer that sets no variables, such as JaxTrainer; it has imported `ray.train`.

    `MASTER_ADDR` would be that of another launcher, perhaps on one host only: `hosts/in_ray.py` finds the address.
    """
    train = sys.modules.get("ray.train")
    with contextlib.suppress(Exception):  # Ray raises various errors outside workers of Ray Train
        context: Any = vars(train)["get_context"]()
        rank, size = context.get_world_rank(), context.get_world_size()
        local = context.get_local_rank(), context.get_local_world_size()
        if size > 1:
            return World(rank, size, *local, platform.node(), "ray")
    return None
