"""The command line: a table of commands, and the handling of their errors.

The table names a module for each command, with its options and its work. Only the module of the typed command is imported. Data
goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

from abreast import __version__
from abreast.errors import AbreastError
from abreast.options import CommandParser, add_command
from abreast.stdout import flush

# For each command: its module, with `add_arguments(parser)` and `run(options)`, and its line in the help.
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
    "checkpoints": ("abreast.checkpoints.command", "look into checkpoints of a training: list, verify, prune, export"),
    "torture": (
        "abreast.torture.command",
        "run a Keras script again and again with kills, a full disk and other faults; compare its end with an undisturbed run",
    ),
    "completion": ("abreast.completion_command", "print a script that completes commands and options in a shell"),
}
_OF_PROCESSES = ("check", "torture")  # commands that run scripts in other processes only


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error in the request, 1 for an exception of a script.

    Without a command, the help is printed.
    """
    typed = list((sys.argv[1:] if arguments is None else arguments) or ["--help"])
    command = next((word for word in typed if not word.startswith("-")), "")
    parser = _parser(_COMMANDS.keys() & {command})
    _check_command(parser, typed, command)
    try:
        options = parser.parse_args(typed)
        with _ended_by_exception(signal.SIGTERM) if command in _OF_PROCESSES else nullcontext():
            code = _run(command, options)
        flush()
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        return 141
    except AbreastError as error:
        from abreast.stderr import fail  # imported late: it takes a tenth of the time of `--help`

        fail(error)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


def _run(command: str, options: argparse.Namespace) -> int:
    code: int
    if "late_option" not in options:  # no command for a script
        code = options.command(options)
        return code
    from abreast.typed_command import typed

    with typed(command, options.script, options.late_option):
        code = options.command(options)
    return code


@contextmanager
def _ended_by_exception(number: signal.Signals) -> Iterator[None]:
    """Inside, a signal ends the command like an error, so that its processes and temporary folders go.

    Not for code that may stay in native code, as a script does: Python notices the signal only afterwards.
    """

    def end(*_: Any) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(number) is not signal.SIG_DFL:
        yield
        return
    signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)


def _check_command(parser: CommandParser, typed: Sequence[str], command: str) -> None:
    """End the program with an error if the first word is an option of a command, or an unknown command."""
    if typed[0].startswith("-"):
        if typed[0] not in parser._option_string_actions:
            from abreast.nearest import nearest

            near = nearest(typed[0], ["--help", "--version"])
            if near:
                parser.error(f"unknown option {typed[0]}\nhint: did you mean {near[0]}?")
            hint = "options follow their command, as in `abreast run --devices 4 train.py`"
            parser.error(f"{typed[0]} comes before a command\nhint: {hint}")
    elif command not in _COMMANDS:
        from abreast.nearest import did_you_mean

        hint = did_you_mean(command, _COMMANDS)
        if command.endswith(".py"):
            hint = f"`abreast run {command}` runs a script"
        parser.error(f"there is no command {command!r}\nhint: {hint}")


def _parser(loaded: Iterable[str] = _COMMANDS) -> CommandParser:
    """A parser with the names of all commands, and the options of the commands in `loaded`."""
    parser = CommandParser(
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


def all_commands() -> CommandParser:
    """A parser with the options of all commands."""
    return _parser()
