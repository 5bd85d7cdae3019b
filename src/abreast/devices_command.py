"""`abreast devices`: prints the devices of this machine (`device_list.py`), as a table or as JSON.

Not here: the devices of all hosts of a job (`all_hosts.py`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence

from abreast.device_list import Device, list_devices
from abreast.host_options import add_host_options, refuse_strays, take_hosts
from abreast.options import CommandParser, add_option
from abreast.stdout import say
from abreast.text_table import text_table


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list; sizes are in bytes")
    add_option(
        parser,
        "--all-hosts",
        action="store_true",
        help="in each process of a launcher, or of --hosts: rank 0 prints what all of them have, the others nothing",
    )
    add_host_options(parser)


def run(options: argparse.Namespace) -> int:
    refuse_strays(options)
    if options.all_hosts or options.hosts:
        take_hosts(options)
        from abreast.all_hosts import devices_of_all_hosts

        return devices_of_all_hosts(as_json=options.json)
    devices = list_devices()
    say(json.dumps([dataclasses.asdict(d) for d in devices], indent=2) if options.json else _table(devices))
    if any(device.kind == "gpu" for device in devices):
        _tell_unused()
    return 0


def _tell_unused() -> None:
    """Report GPUs that the installed build of Keras's framework cannot use."""
    from abreast.backend.unused_gpus import unused_gpus
    from abreast.backend_choice import backend_choice
    from abreast.errors import BackendError
    from abreast.stderr import tell

    try:
        unused = unused_gpus(backend_choice()[0], computes_on_cpu=False)
    except BackendError as error:  # no framework: the list of devices does not need one
        tell(str(error))
        return
    if unused is not None:
        tell(str(unused))


def _table(devices: Sequence[Device]) -> str:
    rows = [("NAME", "MODEL", "MEMORY", "UUID", "BUS ID")]
    rows += [(d.name, d.model, _gib(d.memory_bytes), d.uuid or "-", d.bus_id or "-") for d in devices]
    return text_table(rows)


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 2**30:.1f} GiB"
