"""`abreast check`: prints a verdict. The exit code is 0 for equal, 1 for a difference, 2 if nothing was compared.

Without a script, a small model of ours is checked on each framework that is installed (`trials.py`).

NumPy is not imported before the command runs.
"""

from __future__ import annotations

import argparse
import json

from abreast import run_command
from abreast.backend.registry import BACKENDS, installed, require
from abreast.checking.side import SideSpec
from abreast.errors import BackendError, DataError, LaunchError
from abreast.installing import install_command
from abreast.options import CommandParser, add_option
from abreast.run import RunOptions, check_file
from abreast.stderr import tell
from abreast.stdout import say

STEPS = 20
_SIMULATED_DEVICES = 4


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--steps", metavar="N", type=int, default=STEPS, help=f"steps of each fit (default: {STEPS})")
    parser.add_argument(
        "--float64", action="store_true", help="compute in float64, to distinguish rounding from a difference"
    )
    add_option(
        parser,
        "--no-random",
        action="store_true",
        help="switch off random layers on both sides, and compare everything else",
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    run_command.add_options(parser)
    run_command.add_script(parser, optional=True)


def run(options: argparse.Namespace) -> int:
    check_steps(options.steps)
    if options.backend is not None:
        require(options.backend)
    return _try_frameworks(options) if options.script is None else _check_script(options)


def _check_script(options: argparse.Namespace) -> int:
    from abreast.checking.order import check_script
    from abreast.checking.verdict import as_data

    verdict = check_script(_side(options), tell)
    say(json.dumps(as_data(verdict), indent=2) if options.json else str(verdict))
    return 0 if verdict.exact else 1


def _try_frameworks(options: argparse.Namespace) -> int:
    from abreast.checking.trials import options_of, report, run_trials, trials_as_data

    if options.module:
        raise LaunchError("-m without the name of a module", "give a script, or leave out -m")
    names = installed() if options.backend is None else (options.backend,)
    if not names:
        raise BackendError(f"none of {', '.join(BACKENDS)} is installed", install_command(BACKENDS[0]))
    asked = run_command.run_options(options)
    accelerators = run_command.accelerators()
    chosen = _chosen_devices(asked)
    trials = run_trials(
        _side_of("", options, asked),
        [(name, chosen or options_of(name, asked, accelerators, tell)) for name in names],
        tell,
    )
    say(json.dumps(trials_as_data(trials), indent=2) if options.json else report(trials))
    if all(trial.verdict is None for trial in trials):
        return 2
    return 0 if all(trial.exact for trial in trials) else 1


def _chosen_devices(asked: RunOptions) -> RunOptions | None:
    """The options with the devices that the user chose; None if the user chose none."""
    return None if asked.devices == "auto" and asked.cpu_devices is None else _on_devices(asked)


def _side(options: argparse.Namespace) -> SideSpec:
    if not options.module:
        check_file(options.script)
    return _side_of(options.script, options, _on_devices(run_command.run_options(options)))


def _side_of(script: str, options: argparse.Namespace, run_options: RunOptions) -> SideSpec:
    return SideSpec(
        script=script,
        arguments=tuple(options.arguments),
        module=options.module,
        options=run_options,
        placed=True,
        steps=options.steps,
        folder="",
        float64=options.float64,
        no_random=options.no_random,
    )


def check_steps(steps: object) -> None:
    """Raise `DataError` unless `steps` is a valid number of steps."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise DataError(f"steps={steps!r} is not allowed", "compare at least 1 step")


def _on_devices(options: RunOptions) -> RunOptions:
    return run_command.on_devices(options, _SIMULATED_DEVICES)
