"""The command line: a table of commands, and what happens to their errors.

The options of a command and its work are in the module that the table names. Only the module of the typed command is
imported. Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence

from abreast import __version__
from abreast.errors import AbreastError
from abreast.options import add_command
from abreast.stdout import flush, plain

# The module of each command, which has `add_arguments(parser)` and `run(options)`, and the command's line in the help.
_COMMANDS = {
    "devices": (
        "abreast.devices_command",
        "list the devices of this machine, without starting a framework or taking memory of a device",
    ),
    "env": (
        "abreast.env_command",
        "describe this installation and this machine for a bug report: versions, frameworks, driver, devices, variables",
    ),
    "run": ("abreast.run_command", "run an unchanged Keras script with its models on several devices"),
    "doctor": (
        "abreast.doctor.command",
        "run a Keras script up to its first fit; report where the time of that fit goes, and what to do",
    ),
    "check": (
        "abreast.checking.command",
        "run a Keras script with plain Keras and on devices; report whether both compute the same, and why not",
    ),
    "bench": (
        "abreast.bench.command",
        "measure how models scale over the devices, beside other ways; write a report of the measurements",
    ),
    "machine": (
        "abreast.machine.command",
        "measure this machine: its devices, their links, memory, network and disk; print JSON",
    ),
    "plan": (
        "abreast.plan.command",
        "predict how a training scales: throughput, efficiency, the bottleneck, the cost of an epoch",
    ),
    "pack": (
        "abreast.records.packing.command",
        "pack images into shards that are fast to read at any place, and checked",
    ),
    "records": ("abreast.records.command", "look into packed images: info, show, verify, extract"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error in the request, 1 for an exception of a script."""
    typed = sys.argv[1:] if arguments is None else arguments
    command = next((word for word in typed if not word.startswith("-")), "")
    options = _parser(_COMMANDS.keys() & {command}).parse_args(typed)
    try:
        code: int = options.command(options)
        flush()
    except BrokenPipeError:  # the reader of a script's output has closed it, as `head` does
        return 141
    except AbreastError as error:
        print(plain(f"abreast: error: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


def _parser(loaded: Iterable[str] = _COMMANDS) -> argparse.ArgumentParser:
    """A parser that knows all commands by name, and the options of those that are `loaded`."""
    parser = argparse.ArgumentParser(
        prog="abreast",
        description="Train any Keras 3 model on several devices, with the result that one device gives.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"abreast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parsers = {name: add_command(commands, name, about) for name, (_, about) in _COMMANDS.items()}
    for name in loaded:
        module = importlib.import_module(_COMMANDS[name][0])
        module.add_arguments(parsers[name])
        parsers[name].set_defaults(command=module.run)
    return parser
