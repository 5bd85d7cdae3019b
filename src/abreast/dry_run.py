"""`abreast run --dry-run`: the place of this process in its job, the route to rank 0, and the devices that it would use.

Imports no framework and opens no connection, so it does not know whether the other processes can be reached.
"""

from __future__ import annotations

import json
import os
from typing import Any

from abreast.backend.registry import BACKENDS
from abreast.backend.torch.interface import choose_interface
from abreast.backend.unused_gpus import unused_gpus
from abreast.backend_choice import backend_choice
from abreast.device_list import CPU_DEVICES, list_devices
from abreast.device_request import choose
from abreast.errors import AbreastError, LaunchError
from abreast.hosts.meeting import meeting_port
from abreast.launchers import World, address_of_rank_0, own_devices, read_world
from abreast.launchers.route import with_port
from abreast.run import RunOptions, check_file
from abreast.stdout import say
from abreast.text_table import text_table


def dry_run(script: str, options: RunOptions, *, module: bool, as_json: bool) -> int:
    """Print the facts. Raises `AbreastError` for contradictory variables, and, after the facts, if the run would be refused."""
    if not module:
        check_file(script)
    options.choose_backend()
    world, (backend, _) = read_world(), backend_choice()
    devices: tuple[str, ...] = ()
    refusal: AbreastError | None = None
    try:
        devices = _devices(options, world, backend)
    except AbreastError as error:
        refusal = error
    facts = _facts(world, backend, devices)
    say(json.dumps(facts, indent=2) if as_json else text_table([(name, _text(facts[name])) for name in facts]))
    if refusal is not None:
        raise refusal
    return 0


def _facts(world: World, backend: str, devices: tuple[str, ...]) -> dict[str, Any]:
    return {
        "launcher": world.source,
        "rank": world.rank,
        "size": world.size,
        "host": world.host,
        "local_rank": world.local_rank,
        "local_size": world.local_size,
        "one_process_per": None if world.source == "alone" else world.per,
        "rank_0_address": world.master_addr,
        "rank_0_port": world.master_port,
        "ranks_meet_at": _meeting(world),
        "interface": _interface(world),
        "backend": backend,
        "devices": list(devices),
    }


def _meeting(world: World) -> str | None:
    """The address where rank 0 listens for the others; None for one process, or if it is unknown."""
    if world.size == 1 or world.master_addr is None or world.master_port is None:
        return None
    return with_port(world.master_addr, meeting_port(world.master_port))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)


def _interface(world: World) -> str | None:
    """The network interface that leads to rank 0; None for one process, or if it is unknown."""
    if world.size == 1 or world.master_addr is None:
        return None
    environ = dict(os.environ)
    choose_interface(world.master_addr, environ, several_hosts=not world.is_on_one_host)
    return environ.get("GLOO_SOCKET_IFNAME")


def _devices(options: RunOptions, world: World, backend: str) -> tuple[str, ...]:
    """The devices of this process. Raises `AbreastError` if the run would be refused."""
    there = _visible(options, backend)
    if world.size == 1:
        return choose(options.devices, there)
    if backend not in BACKENDS:
        raise LaunchError(f"Keras uses {backend}")
    address_of_rank_0(world)
    return own_devices(world, there, os.environ)


def _visible(options: RunOptions, backend: str) -> tuple[str, ...]:
    """The devices that the framework would see, as far as that is known without starting it."""
    simulated = {} if options.cpu_devices is None else {CPU_DEVICES: str(options.cpu_devices)}
    devices = list_devices({**os.environ, **simulated})
    if devices[0].kind == "gpu" and unused_gpus(backend, computes_on_cpu=False) is not None:
        return ("cpu:0",)
    return tuple(device.name for device in devices)
