"""`abreast check`: prints a verdict. The exit code is 0 for equal, 1 for a difference, 2 if nothing was compared.

`order.py` needs NumPy and is imported last, so that a wrong argument is reported without waiting for it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys

from abreast.checking.options import SIMULATED_DEVICES
from abreast.checking.side import SideSpec
from abreast.errors import DataError, LaunchError
from abreast.hardware import list_devices, parse_devices
from abreast.run import RunOptions, require
from abreast.stdout import say


def check(options: argparse.Namespace) -> int:
    """Run `abreast check`; returns the exit code."""
    from abreast.checking.order import check_script
    from abreast.checking.verdict import as_data

    verdict = check_script(_side(options), _tell)
    say(json.dumps(as_data(verdict), indent=2) if options.json else str(verdict))
    return 0 if verdict.exact else 1


def _side(options: argparse.Namespace) -> SideSpec:
    check_steps(options.steps)
    if options.backend is not None:
        require(options.backend)
    if not options.module and not os.path.exists(options.script):
        raise LaunchError(
            f"there is no script {options.script!r} in {os.getcwd()}", "options of the script come after its name"
        )
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(RunOptions)}
    return SideSpec(
        script=options.script,
        arguments=tuple(options.arguments),
        module=options.module,
        options=_on_devices(RunOptions(**fields)),
        placed=True,
        steps=options.steps,
        folder="",
        float64=options.float64,
        no_random=options.no_random,
    )


def check_steps(steps: object) -> None:
    """Raise `DataError` unless `steps` is a valid number of steps."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise DataError(f"steps={steps!r}", "compare at least 1 step")


def _on_devices(options: RunOptions) -> RunOptions:
    """The options with simulated devices where the machine has no accelerators."""
    parse_devices(options.devices)
    if options.cpu_devices is not None or any(not device.name.startswith("cpu") for device in list_devices()):
        return options
    asked = str(options.devices)
    if asked != "auto" and not asked.isdigit():
        return options  # devices by name, which do not exist here: the run will say so
    count = int(asked) if asked.isdigit() else SIMULATED_DEVICES
    return dataclasses.replace(options, devices="auto", cpu_devices=count)


def _tell(what: str) -> None:
    print(f"abreast: {what}", file=sys.stderr, flush=True)
