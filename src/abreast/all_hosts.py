"""`abreast devices --all-hosts`: the devices and versions of each process of a job, in one table that rank 0 prints.

The processes meet as they do before a training, so the table also shows that they reach one another. Starts no framework.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from abreast.backend.builds import distribution_of
from abreast.backend.registry import BACKENDS
from abreast.backend.unused_gpus import unused_gpus
from abreast.backend_choice import backend_choice
from abreast.device_list import list_devices
from abreast.errors import AbreastError, BackendError
from abreast.hosts import meet
from abreast.launchers import World, own_devices, read_world
from abreast.provenance import package_versions, versions
from abreast.stderr import tell
from abreast.stdout import say
from abreast.text_table import text_table
from abreast.units import byte_count

_SHOWN = ("keras", "abreast", "python")


def devices_of_all_hosts(*, as_json: bool) -> int:
    """Print the table, or JSON, on rank 0. Raises `LaunchError` on every rank if one is missing."""
    world = read_world()
    ranks = _of_all(world)
    if world.rank == 0:
        say(json.dumps(ranks, indent=2) if as_json else _table(ranks))
        for line in [*_unused(ranks), *_differences(ranks)]:
            tell(line)
    return 0


def _of_all(world: World) -> list[dict[str, Any]]:
    own = _facts(world)
    if world.size == 1:
        return [own]
    meeting = meet(world, {"has": own})
    meeting.close()
    return [hello["has"] for hello in meeting.hellos]


def _facts(world: World) -> dict[str, Any]:
    return {
        "rank": world.rank,
        "host": world.host,
        "local_rank": world.local_rank,
        **_framework(),
        "devices": [asdict(device) for device in list_devices() if device.name in _own(world)],
        "versions": {**versions(), **package_versions("jaxlib", "keras-nightly")},
    }


def _framework() -> dict[str, str | None]:
    """The framework that Keras would use, with its version, and the reason if it cannot use the GPUs."""
    try:
        chosen = backend_choice()[0]
    except BackendError as error:
        return {"framework": None, "unused_gpus": error.message}
    known = next((name for name in BACKENDS if name == chosen), None)
    found = None if known is None else distribution_of(known)
    unused = unused_gpus(chosen, computes_on_cpu=False)
    return {
        "framework": chosen if found is None else f"{chosen} {found[1]}",
        "unused_gpus": None if unused is None else unused.message,
    }


def _own(world: World) -> tuple[str, ...]:
    """The devices that this process would use."""
    names = tuple(device.name for device in list_devices())
    try:
        return own_devices(world, names, os.environ)
    except AbreastError:  # more processes than devices: the table of visible devices shows that
        return names


def _table(ranks: Sequence[Mapping[str, Any]]) -> str:
    rows = [("RANK", "HOST", "LOCAL", "DEVICE", "MODEL", "MEMORY", "FRAMEWORK", *map(str.upper, _SHOWN))]
    for each in ranks:
        shown = [each["versions"].get(name, "-") for name in _SHOWN]
        for device in each["devices"]:
            memory = "-" if device["memory_bytes"] is None else byte_count(device["memory_bytes"])
            place = str(each["rank"]), each["host"], str(each["local_rank"])
            rows.append((*place, device["name"], device["model"], memory, each["framework"] or "-", *shown))
    return text_table(rows)


def _unused(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"rank {each['rank']} on host {each['host']}: {why}" for each in ranks if (why := each["unused_gpus"])]


def _differences(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each fact of a rank that differs from rank 0's: such a job would be refused, or would compute other results."""
    lines = []
    for each in ranks[1:]:
        names = sorted({*ranks[0]["versions"], *each["versions"]})
        facts = [("framework", ranks[0]["framework"], each["framework"])]
        facts += [(name, ranks[0]["versions"].get(name), each["versions"].get(name)) for name in names]
        lines += [
            f"rank {each['rank']} on host {each['host']} has {name} {theirs or '(none)'}, and rank 0 has {ours or '(none)'}"
            for name, ours, theirs in facts
            if ours != theirs
        ]
    return lines
