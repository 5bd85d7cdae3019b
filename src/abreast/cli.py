"""The command line: arguments in, one library call, text out.

Data goes to stdout, everything else to stderr. Imports `errors`, `stdout` and `backend.registry` at once, the rest when a
command needs it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from abreast import __version__
from abreast.backend.registry import BACKENDS
from abreast.errors import AbreastError
from abreast.stdout import flush, plain, say

if TYPE_CHECKING:
    from abreast.hardware import Device
    from abreast.run import RunOptions

# What the same thing is called by torchrun, Accelerate, Lightning and others.
_DEVICES_ELSEWHERE = ("--nproc-per-node", "--num-gpus", "--gpus", "--num-processes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 2 for what was asked, 1 for what a script raised."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        flush()
    except BrokenPipeError:  # who read what a script printed has seen enough, as `head` has
        return 141
    except AbreastError as error:
        print(plain(f"abreast: error: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="abreast",
        description="Train any Keras 3 model on several devices, with the result that one device gives.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"abreast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_devices(commands)
    _add_run(commands)
    _add_doctor(commands)
    _add_check(commands)
    _add_bench(commands)
    _add_machine(commands)
    _add_plan(commands)
    _add_pack(commands)
    _add_records(commands)
    return parser


def _add_command(commands: Any, name: str, about: str, **settings: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False, **settings
    )
    return parser


def _add_devices(commands: Any) -> None:
    about = "list the devices of this machine, without starting a framework or taking memory of a device"
    parser = _add_command(commands, "devices", about)
    parser.add_argument("--json", action="store_true", help="print a JSON list; sizes are in bytes")
    parser.set_defaults(command=_devices)


def _add_run(commands: Any) -> None:
    about = "run an unchanged Keras script with its models on several devices"
    parser = _add_command(commands, "run", about, usage="abreast run [options] SCRIPT [arguments of the script]")
    _add_script(parser)
    parser.set_defaults(command=_run)


def _add_doctor(commands: Any) -> None:
    about = "run a Keras script up to its first fit; say where the time of that goes, and what to do"
    parser = _add_command(commands, "doctor", about, usage="abreast doctor [options] SCRIPT [arguments of the script]")
    parser.add_argument("--steps", metavar="N", type=int, default=30, help="steps as given to measure (default: 30)")
    parser.add_argument("--html", metavar="FILE", help="write a page of the diagnosis too")
    parser.add_argument("--json", metavar="FILE", help="write the diagnosis as data too")
    _add_script(parser)
    parser.set_defaults(command=_doctor)


def _add_check(commands: Any) -> None:
    from abreast.checking.options import add_arguments

    about = "run a Keras script with plain Keras and on devices; say whether both compute the same, and why not"
    parser = _add_command(commands, "check", about, usage="abreast check [options] SCRIPT [arguments of the script]")
    add_arguments(parser, _add_option)
    _add_script(parser)
    parser.set_defaults(command=_check)


def _add_bench(commands: Any) -> None:
    about = "measure how models scale over the devices, beside other ways; make a report of what was measured"
    parser = _add_command(commands, "bench", about)
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="of Keras Applications, or alexnet, cifar10, mlp, transformer, module:function",
    )
    parser.add_argument("--cases", metavar="FILE", help="more cases, as a JSON list of objects")
    parser.add_argument("--backend", metavar="NAMES", help="jax, tensorflow, torch, or several between commas")
    parser.add_argument("--devices", metavar="COUNTS", help="as 1,2,4 or 1-4 (default: 1, 2, 4, ... and all)")
    _add_option(parser, "--cpu-devices", metavar="N", type=int, help="simulate up to N devices on the CPU")
    parser.add_argument("--batch", metavar="N", type=int, help="rows per device (default: the model's)")
    _add_option(parser, "--global-batch", metavar="N", type=int, help="rows in all, on any number of devices")
    parser.add_argument(
        "--precision", metavar="KINDS", default="float32", help="float32, bfloat16, float16 (default: float32)"
    )
    parser.add_argument(
        "--input",
        metavar="SOURCE",
        default="host",
        help="noise from the host, made on the device, a folder of records, or module:function (default: host)",
    )
    _add_option(parser, "--input-shape", metavar="SIZES", help="of one row, as 32,32,3 (default: the model's)")
    parser.add_argument(
        "--variant",
        metavar="SETTINGS",
        action="append",
        default=[],
        help="abreast again, as prefetch=0,batch_norm=local",
    )
    parser.add_argument("--against", metavar="RIVALS", help="keras, native, or both, taking turns with abreast")
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="turns of each side (default: 5)")
    parser.add_argument("--steps", metavar="N", type=int, help="timed steps of a turn (default: half a second of them)")
    _add_option(parser, "--warm-up", metavar="N", type=int, default=3, help="steps dropped in each turn (default: 3)")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=1800.0, help="for all sides of one case (default: 1800)"
    )
    _add_option(parser, "--output", ("-o",), metavar="FILE", default="bench.jsonl", help="default: bench.jsonl")
    parser.add_argument("--again", action="store_true", help="measure anew what FILE has already")
    parser.add_argument("--report", metavar="FOLDER", help="make a page and figures of all in FILE")
    parser.add_argument("--png", action="store_true", help="figures as PNG too, drawn by a browser without a window")
    parser.add_argument("--predicted", metavar="FILE", help="predictions to draw beside what was measured")
    parser.set_defaults(command=_bench)


def _add_machine(commands: Any) -> None:
    about = "measure this machine: its devices, their links, memory, network and disk; print JSON"
    parser = _add_command(commands, "machine", about)
    _add_option(parser, "--output", ("-o",), metavar="FILE", help="write it there (default: stdout)")
    parser.add_argument("--quick", action="store_true", help="list what is there, and measure nothing")
    parser.add_argument("--backend", choices=BACKENDS, help="what sums over devices")
    _add_option(parser, "--cpu-devices", metavar="N", type=int, help="sum over N simulated devices")
    parser.add_argument("--disk", metavar="FOLDER", default=".", help="of which disk (default: this folder's)")
    parser.set_defaults(command=_machine)


def _add_plan(commands: Any) -> None:
    from abreast.plan.options import add_arguments

    about = "predict how a training scales: throughput, efficiency, what is in the way, what an epoch costs"
    parser = _add_command(commands, "plan", about)
    add_arguments(parser, _add_option)
    parser.set_defaults(command=_plan)


def _add_pack(commands: Any) -> None:
    from abreast.records.packing.options import add_arguments

    about = "pack images into shards that are fast to read at any place, and checked"
    parser = _add_command(commands, "pack", about)
    add_arguments(parser, _add_option)
    parser.set_defaults(command=_pack)


def _add_records(commands: Any) -> None:
    from abreast.records.options import add_actions

    parser = _add_command(commands, "records", "look into packed images: info, show, verify, extract")
    add_actions(parser, _add_command, _add_option)
    parser.set_defaults(command=_records)


def _add_script(parser: argparse.ArgumentParser) -> None:
    """A script with its arguments, and where its models train."""
    _add_option(
        parser,
        "--devices",
        elsewhere=_DEVICES_ELSEWHERE,
        metavar="SPEC",
        default="auto",
        help=f"auto (every accelerator), a number, indices as 0,2, or names as gpu:0,gpu:1 (default: auto); "
        f"also spelled {', '.join(_DEVICES_ELSEWHERE)}",
    )
    _add_option(parser, "--cpu-devices", metavar="N", type=int, help="simulate N devices on the CPU")
    _add_option(parser, "--backend", choices=BACKENDS, help="set KERAS_BACKEND for the script")
    _add_option(
        parser,
        "--batch-norm",
        choices=("global", "local"),
        default="global",
        help="statistics of the whole batch, or of each device's rows (default: global)",
    )
    _add_option(parser, "--check-numerics", action="store_true", help="stop at the first loss that is not finite")
    _add_option(
        parser,
        "--no-check-rows",
        dest="check_rows",
        action="store_false",
        help="do not look at the first batch for layers that relate its rows (TensorFlow, PyTorch)",
    )
    _add_option(
        parser,
        "--prefetch",
        metavar="N",
        type=int,
        help="batches that wait on the devices while a step runs; 0 feeds in the training thread (default: 2, and 0 "
        "for sources that could see what callbacks do)",
    )
    _add_option(
        parser,
        "--prefetch-bytes",
        metavar="BYTES",
        type=int,
        help="memory for them (default: an eighth of what is free)",
    )
    _add_option(
        parser, "--input-timeout", metavar="SECONDS", type=float, help="end a fit that waits so long for one batch"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file; what follows it goes to the script untouched")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _add_option(parser: argparse.ArgumentParser, name: str, elsewhere: Sequence[str] = (), **settings: Any) -> None:
    """An option, its spelling with `_`, and its names in other tools; help shows the first spelling only."""
    spellings = dict.fromkeys(spelling for each in (name, *elsewhere) for spelling in (each, _underscored(each)))
    hidden = [spelling for spelling in spellings if spelling != name]
    action = parser.add_argument(name, **settings)
    if hidden:
        settings |= {"dest": action.dest, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        parser.add_argument(*hidden, **settings)


def _underscored(option: str) -> str:
    return "--" + option.removeprefix("--").replace("-", "_")


def _devices(options: argparse.Namespace) -> int:
    from abreast.hardware import list_devices

    devices = list_devices()
    say(json.dumps([dataclasses.asdict(d) for d in devices], indent=2) if options.json else _table(devices))
    return 0


def _table(devices: Sequence[Device]) -> str:
    rows = [("NAME", "MODEL", "MEMORY", "UUID", "BUS ID")]
    rows += [(d.name, d.model, _gib(d.memory_bytes), d.uuid or "-", d.bus_id or "-") for d in devices]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 2**30:.1f} GiB"


def _run(options: argparse.Namespace) -> int:
    from abreast.run import run_script

    return run_script(options.script, options.arguments, _run_options(options), module=options.module)


def _run_options(options: argparse.Namespace) -> RunOptions:
    from abreast.run import RunOptions

    return RunOptions(**{field.name: getattr(options, field.name) for field in dataclasses.fields(RunOptions)})


def _doctor(options: argparse.Namespace) -> int:
    from abreast.doctor.report import report
    from abreast.doctor.script import diagnose_script, write_json
    from abreast.whole_file import writable

    json_file, html_file = (None if path is None else writable(path) for path in (options.json, options.html))
    code, diagnosis = diagnose_script(
        options.script, options.arguments, _run_options(options), module=options.module, steps=options.steps
    )
    if diagnosis is None:
        return code
    say(report(diagnosis))
    if len(diagnosis.devices) > 1:
        print(f"abreast: is it exact? abreast check {options.script}", file=sys.stderr)
    from abreast.doctor.page import write_page  # imports NumPy, which a script may want to configure first

    for write, path in ((write_json, json_file), (write_page, html_file)):
        try:
            if path is not None:
                write(diagnosis, path)
        except AbreastError as error:  # the other one may go well
            print(plain(f"abreast: error: {error}"), file=sys.stderr)
            code = 2
    return code


def _check(options: argparse.Namespace) -> int:
    from abreast.checking.command import check

    return check(options)


def _bench(options: argparse.Namespace) -> int:
    from abreast.bench.command import bench

    return bench(options)


def _machine(options: argparse.Namespace) -> int:
    from abreast.machine.machine import machine_command

    return machine_command(options)


def _plan(options: argparse.Namespace) -> int:
    from abreast.plan.command import run

    return run(options)


def _pack(options: argparse.Namespace) -> int:
    from abreast.records.packing.command import run

    return run(options)


def _records(options: argparse.Namespace) -> int:
    from abreast.records.command import run

    return run(options)
