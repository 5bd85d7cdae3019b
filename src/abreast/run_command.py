"""`abreast run`, and the options for a script and its devices, which `doctor` and `check` share."""

from __future__ import annotations

import argparse
import dataclasses
from functools import partial

from abreast.backend.registry import BACKENDS
from abreast.checkpoints import options as on_checkpoints
from abreast.device_list import Device, list_devices, simulated_cpu_devices
from abreast.errors import LaunchError
from abreast.host_options import add_host_options, take_hosts
from abreast.options import CommandParser, add_option
from abreast.ray import options as on_ray
from abreast.run import RunOptions, run_script
from abreast.run_lines import RunLines

# Names of the same option in torchrun, Accelerate, Lightning and others.
_DEVICES_ELSEWHERE = ("--nproc-per-node", "--num-gpus", "--gpus", "--num-processes")


def run(options: argparse.Namespace) -> int:
    if options.json and not options.dry_run:
        raise LaunchError("--json is for what --dry-run prints", "add --dry-run, or leave it out")
    policy = on_checkpoints.policy_of(options)
    if options.ray:
        return on_ray.run(options, run_options(options))
    on_ray.refuse_without_ray(options)
    take_hosts(options)
    if options.dry_run:
        from abreast.dry_run import dry_run

        return dry_run(options.script, run_options(options), module=options.module, as_json=options.json)
    if policy is not None and options.max_restarts:
        from abreast.checkpoints.restarts import policy_of_this_start, run_again

        here = policy_of_this_start(policy)
        if here is None:
            return run_again(policy, options.max_restarts)
        policy = here
    lines = None if options.quiet else RunLines(options.script)
    placed = run_options(options)
    script = partial(run_script, options.script, options.arguments, placed, module=options.module, lines=lines)
    return on_checkpoints.under_policy(policy, script)


def run_options(options: argparse.Namespace) -> RunOptions:
    """The options that place the models of the script."""
    given = RunOptions(**{field.name: getattr(options, field.name) for field in dataclasses.fields(RunOptions)})
    simulated = simulated_cpu_devices() if given.cpu_devices is None else None
    return given if simulated is None else dataclasses.replace(given, cpu_devices=simulated)


def on_devices(options: RunOptions, simulated: int) -> RunOptions:
    """The options, with simulated devices if the machine has no accelerators: the requested number, or `simulated`."""
    if options.cpu_devices is not None or accelerators():
        return options
    asked = str(options.devices)
    if asked != "auto" and not asked.isdigit():
        return options  # devices by name, which do not exist here: the run reports that
    count = int(asked) if asked.isdigit() else simulated
    return dataclasses.replace(options, devices="auto", cpu_devices=count)


def accelerators() -> list[Device]:
    return [device for device in list_devices() if device.kind != "cpu"]


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print no lines about the run")
    add_option(
        parser,
        "--dry-run",
        action="store_true",
        help="print the place of this process among those of its launcher, and its devices; run nothing",
    )
    parser.add_argument("--json", action="store_true", help="print what --dry-run prints as JSON")
    on_checkpoints.add_arguments(parser)
    add_host_options(parser, may_be_number=True)
    on_ray.add_arguments(parser)
    add_script_arguments(parser)


def add_script_arguments(parser: CommandParser) -> None:
    """Add the options for a script, its arguments, and the devices of its models."""
    add_options(parser)
    add_script(parser)


def add_script(parser: CommandParser, *, optional: bool = False) -> None:
    """Add the name of a script and its arguments."""
    words = "[SCRIPT [arguments of the script]]" if optional else "SCRIPT [arguments of the script]"
    parser.script_follows = True
    parser.usage = f"{parser.prog} [options] {words}"
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs="?" if optional else None,
        help="a Python file; all arguments after it go to the script unchanged",
    )
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    rest.required = False  # otherwise argparse's message about a missing SCRIPT lists it, too


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the devices of a script's models."""
    add_option(
        parser,
        "--devices",
        elsewhere=_DEVICES_ELSEWHERE,
        metavar="SPEC",
        default="auto",
        help=f"auto (every accelerator), a number, indices as 0,2, or names as gpu:0,gpu:1 (default: auto); "
        f"also spelled {', '.join(_DEVICES_ELSEWHERE)}",
    )
    add_option(parser, "--cpu-devices", metavar="N", type=int, help="simulate N devices on the CPU")
    add_option(parser, "--backend", choices=BACKENDS, help="set KERAS_BACKEND for the script")
    add_option(
        parser,
        "--batch-norm",
        choices=("global", "local"),
        default="global",
        help="statistics of the whole batch, or of each device's rows (default: global)",
    )
    add_option(parser, "--check-numerics", action="store_true", help="stop at the first loss that is not finite")
    add_option(
        parser,
        "--no-check-rows",
        dest="check_rows",
        action="store_false",
        help="do not look at the first batch for layers that relate its rows (TensorFlow, PyTorch)",
    )
    add_option(
        parser,
        "--prefetch",
        metavar="N",
        type=int,
        help="batches that wait on the devices while a step runs; 0 feeds in the training thread (default: 2, and 0 "
        "for sources that could see the effects of callbacks)",
    )
    add_option(
        parser,
        "--prefetch-bytes",
        metavar="BYTES",
        type=int,
        help="memory for these batches (default: an eighth of the free memory)",
    )
    add_option(
        parser, "--input-timeout", metavar="SECONDS", type=float, help="end a fit that waits SECONDS for one batch"
    )
    add_option(
        parser,
        "--source",
        choices=("global", "per-host"),
        default="global",
        help="whether each process of a launcher reads the whole data, or rows of its own (default: global)",
    )
