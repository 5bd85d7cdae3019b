"""The command line: a table of commands, and what happens to their errors.

The options of a command and its work are in the module that the table names. Only the module of the typed command is
imported. Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from abreast import __version__
from abreast.errors import AbreastError
from abreast.options import add_option as _add_option
from abreast.stdout import flush, plain, say

if TYPE_CHECKING:
    from abreast.records import Progress

# The module of each command, which has `add_arguments(parser)` and `run(options)`, and the command's line in the help.
_COMMANDS = {
    "devices": (
        "abreast.devices_command",
        "list the devices of this machine, without starting a framework or taking memory of a device",
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
    parsers = {name: _add_command(commands, name, about) for name, (_, about) in _COMMANDS.items()}
    for name in loaded:
        module = importlib.import_module(_COMMANDS[name][0])
        module.add_arguments(parsers[name])
        parsers[name].set_defaults(command=module.run)
    _add_pack(commands)
    _add_records(commands)
    return parser


def _add_command(commands: Any, name: str, about: str, **settings: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False, **settings
    )
    return parser


def _add_pack(commands: Any) -> None:
    about = "pack images into shards that are read fast, at any place, and checked"
    parser = _add_command(commands, "pack", about)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of images, of a folder per class, or of shards; a list, a CSV or Parquet table, or a shard: "
        "a tar in WebDataset's layout, TFRecord, RecordIO",
    )
    parser.add_argument("dest", metavar="DEST", help="the folder to make; where a packer was stopped, it goes on")
    parser.add_argument("--size", metavar="N", type=int, help="short side in pixels of images that are larger")
    parser.add_argument("--quality", metavar="N", type=int, help="of JPEG, 1 to 100 (default: 95)")
    parser.add_argument(
        "--storage",
        choices=("jpeg", "raw", "png", "keep"),
        default="jpeg",
        help="jpeg with restart markers, raw pixels, png, or the files' own bytes (default: jpeg)",
    )
    parser.add_argument("--threads", metavar="N", type=int, help="default: one per core that this process may use")
    _add_option(
        parser,
        "--shard-mb",
        metavar="MB",
        type=float,
        default=1000,
        help="size of a shard, in 10^6 bytes (default: 1000)",
    )
    _add_option(parser, "--shuffle-seed", metavar="N", type=int, help="pack in an order that this number draws")
    _add_option(
        parser,
        "--split",
        metavar="PARTS",
        help="pack parts into folders of DEST: train=0.9,val=0.1 draws them, train,val are folders or shards of SOURCE",
    )
    _add_option(
        parser, "--split-seed", metavar="N", type=int, default=0, help="another number draws other parts (default: 0)"
    )
    _add_option(
        parser, "--image", metavar="NAME", help="the column, feature or extension of the images, if it cannot be told"
    )
    _add_option(
        parser,
        "--columns",
        metavar="NAMES",
        help="the columns to take, between commas, if not all; NEW=OLD calls one otherwise",
    )
    _add_option(
        parser,
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="what to do at an image that cannot be packed (default: stop)",
    )
    parser.set_defaults(command=_pack)


def _add_records(commands: Any) -> None:
    about = "look into packed images: info, show, verify, extract"
    parser = _add_command(commands, "records", about)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, about, command in (
        ("info", "say what is in it", _records_info),
        ("show", "make a picture of samples as training sees them", _records_show),
        ("verify", "check every byte; the exit code is 1 when one is damaged", _records_verify),
        ("extract", "write the images as files, and their columns as lines of JSON", _records_extract),
    ):
        action = _add_command(actions, name, about)
        action.add_argument("folder", metavar="DEST", help="a folder that `abreast pack` made")
        if name == "info":
            action.add_argument("--json", action="store_true", help="print the manifest's content as JSON")
        if name == "show":
            _add_option(action, "--output", ("-o",), metavar="FILE", default="sheet.png", help="default: sheet.png")
            action.add_argument("--seed", metavar="N", type=int, default=0, help="show others (default: 0)")
        if name == "extract":
            action.add_argument("target", metavar="FOLDER", help="an empty folder, or a new one")
        action.set_defaults(command=command)


def _pack(options: argparse.Namespace) -> int:
    from abreast.records import pack

    names = "size quality storage threads shard_mb shuffle_seed split split_seed image columns on_error"
    settings = {name: getattr(options, name) for name in names.split()}
    line = _ProgressLine()
    try:
        summary = pack(options.source, options.dest, **settings, progress=line.show)
    except KeyboardInterrupt:
        line.end()
        print("abreast: stopped\nhint: the same command goes on behind the last whole shard", file=sys.stderr)
        return 130
    finally:
        line.end()
    say(str(summary))
    return 0


class _ProgressLine:
    """One line on a terminal's stderr that changes; elsewhere a new line now and then."""

    def __init__(self, every_seconds: float = 10.0) -> None:
        self._terminal = sys.stderr.isatty()
        self._every_seconds = every_seconds
        self._shown_seconds = 0.0
        self._width = 0

    def show(self, progress: Progress) -> None:
        text = str(progress)
        if self._terminal:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        elif progress.seconds - self._shown_seconds >= self._every_seconds:
            self._shown_seconds = progress.seconds
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._width:
            print(file=sys.stderr)
        self._width = 0


def _records_info(options: argparse.Namespace) -> int:
    from abreast.records.read.info import content, report

    say(json.dumps(content(options.folder), indent=2) if options.json else report(options.folder))
    return 0


def _records_show(options: argparse.Namespace) -> int:
    from abreast.records.read.sheet import write_sheet

    say(f"{options.output}: {write_sheet(options.folder, options.output, options.seed)} samples")
    return 0


def _records_verify(options: argparse.Namespace) -> int:
    from abreast.records import verify

    problems = verify(options.folder)
    say("\n".join(problems) or f"{options.folder}: every byte is as it was written")
    return 1 if problems else 0


def _records_extract(options: argparse.Namespace) -> int:
    from abreast.records import extract

    say(f"{options.target}: {extract(options.folder, options.target):,} images")
    return 0
