"""`abreast machine`: its options, and the JSON that it prints or writes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from abreast import whole_file
from abreast.backend.registry import BACKENDS, installed, require
from abreast.backend_choice import choose_backend
from abreast.errors import DataError
from abreast.machine.machine import machine
from abreast.options import add_option
from abreast.stderr import tell
from abreast.stdout import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--output", ("-o",), metavar="FILE", help="write the JSON to FILE (default: stdout)")
    parser.add_argument("--quick", action="store_true", help="list the hardware, and measure nothing")
    parser.add_argument("--backend", choices=BACKENDS, help="the framework that sums over devices")
    add_option(parser, "--cpu-devices", metavar="N", type=int, help="sum over N simulated devices")
    parser.add_argument(
        "--disk", metavar="FOLDER", default=".", help="measure the disk of FOLDER (default: this folder)"
    )


def run(options: argparse.Namespace) -> int:
    target = None if options.output is None else whole_file.writable(options.output)
    if options.cpu_devices is not None and options.cpu_devices < 1:
        raise DataError(f"--cpu-devices {options.cpu_devices} is not allowed", "give a whole number, at least 1")
    if not Path(options.disk).is_dir():
        raise DataError(f"--disk {options.disk}: there is no such folder", "name a folder that you may write to")
    if options.backend is not None:
        require(options.backend)
    backend = options.backend or (choose_backend() if installed() and not options.quick else None)
    found = machine(Path(options.disk), backend, options.cpu_devices, measures=not options.quick, tell=tell)
    text = json.dumps(found, indent=2) + "\n"
    if target is None:
        say(text.removesuffix("\n"))
    else:
        whole_file.write("the machine", text, target)
        tell(f"wrote {options.output}")
    return 0
