"""`abreast torture`: prints one table. The exit code is 0 if all is well, 1 if something is wrong, 2 if nothing was tested.

NumPy is not imported before the command runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from abreast import deterministic, run_command
from abreast.errors import LaunchError
from abreast.nearest import did_you_mean
from abreast.options import CommandParser, add_option
from abreast.run import RunOptions, check_file
from abreast.stderr import tell
from abreast.stdout import say

if TYPE_CHECKING:
    from abreast.torture.campaign import Request

FAULTS = ("kill", "save", "stop", "disk", "flip", "devices")
ROUNDS = 6
_SIMULATED_DEVICES = 2


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--rounds", metavar="N", type=int, help=f"trainings with faults (default: {ROUNDS})")
    parser.add_argument(
        "--minutes", metavar="M", type=float, help="begin rounds for so long; without --rounds, as many as fit"
    )
    parser.add_argument("--seed", metavar="N", type=int, help="draw the faults of an earlier campaign again")
    parser.add_argument(
        "--faults", metavar="LIST", default=",".join(FAULTS), help=f"some of {','.join(FAULTS)} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_option(
        parser,
        "--checkpoint-every",
        metavar="TIME",
        help="how often a checkpoint is written, as in abreast run (default: 12 times in the training)",
    )
    add_option(parser, "--checkpoint-keep", metavar="N", type=int, default=3, help="how many stay (default: 3)")
    run_command.add_script_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from abreast.torture import report
    from abreast.torture.campaign import torture

    request = request_of(options)
    tell(f"torture with --seed {request.seed}; the script runs in this folder, again and again")
    if request.on_gpus():
        tell(deterministic.SAID)
    place = Path(tempfile.mkdtemp(prefix="abreast-torture-"))
    is_kept = False
    try:
        found = torture(request, place, tell)
        is_kept = found.is_wrong
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)
    say(json.dumps(report.as_data(found), indent=2) if options.json else report.text(found))
    if is_kept:
        tell(f"checkpoints and outputs of all starts are in {place}")
    return 1 if found.is_wrong else 0


def request_of(options: argparse.Namespace) -> Request:
    """The request of the options. Raises `AbreastError` before anything starts."""
    from abreast.checkpoints.options import check_numbers
    from abreast.torture.campaign import Request
    from abreast.torture.side import StartSpec

    if not options.module:
        check_file(options.script)
    _check_numbers(options)
    check_numbers(options)
    every = options.checkpoint_every or ""
    placements = _placements(run_command.run_options(options))
    faults = _faults(options.faults, len(placements))
    spec = StartSpec(
        script=options.script,
        arguments=tuple(options.arguments),
        module=options.module,
        options=placements[0],
        folder="",
        every=every,
        keep=options.checkpoint_keep,
    )
    rounds = ROUNDS if options.rounds is None and options.minutes is None else options.rounds
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return Request(spec, placements, faults, seed, rounds, options.minutes)


def _check_numbers(options: argparse.Namespace) -> None:
    if options.rounds is not None and options.rounds < 1:
        raise LaunchError(f"--rounds {options.rounds} is not allowed", "give 1 or more")
    if options.minutes is not None and not 0 < options.minutes < float("inf"):
        raise LaunchError(f"--minutes {options.minutes:g} is not allowed", "give more than 0")


def _faults(text: str, num_placements: int) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in FAULTS:
            raise LaunchError(f"there is no fault {name!r}", did_you_mean(name, FAULTS))
    if not names:
        raise LaunchError("--faults names no fault", f"give some of {','.join(FAULTS)}")
    if "devices" in names and num_placements == 1:
        names = tuple(name for name in names if name != "devices")
        tell(
            "the number of devices stays: there is one, or they are named; --devices N or --cpu-devices N lets it change"
        )
        if not names:
            raise LaunchError("there is nothing to test", "add faults")
    return names


def _placements(options: RunOptions) -> tuple[RunOptions, ...]:
    """The devices of the undisturbed run, and other devices that starts of a round may have."""
    options = run_command.on_devices(options, _SIMULATED_DEVICES)
    if (first := options.cpu_devices) is not None:
        others = sorted({1, 2 * first} - {first})
        return (options, *(dataclasses.replace(options, cpu_devices=number) for number in others))
    asked = str(options.devices)
    if asked != "auto" and not asked.isdigit():
        return (options,)
    first = len(run_command.accelerators()) if asked == "auto" else int(asked)
    others = sorted({1, max(1, first // 2)} - {first})
    return (options, *(dataclasses.replace(options, devices=number) for number in others))
