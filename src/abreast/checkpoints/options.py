"""The options of `abreast run` about checkpoints, their policy, and their errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack

from abreast.checkpoints import stop
from abreast.checkpoints.policy import Policy, as_default, every_of, keep_of
from abreast.errors import LaunchError
from abreast.launchers import read_world
from abreast.options import CommandParser, add_option
from abreast.stderr import tell

_BESIDE_FOLDER = ("checkpoint_every", "checkpoint_keep", "checkpoint_reset", "max_restarts")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="save the training in this folder, also at SIGTERM and SIGUSR1, which then end the script with 75; go on from "
        "what is there",
    )
    add_option(
        parser,
        "--checkpoint-every",
        metavar="TIME",
        help="how often: a time as 30s, 10min or 1h, a number of steps, or epoch (default: 10min)",
    )
    add_option(parser, "--checkpoint-keep", metavar="N", type=int, help="how many checkpoints stay (default: 3)")
    add_option(
        parser, "--checkpoint-reset", action="store_true", default=None, help="remove what is in DIR, and begin anew"
    )
    add_option(
        parser,
        "--max-restarts",
        metavar="N",
        type=int,
        help="after a crash, start the script again up to N times, as long as there is a new checkpoint since the last time",
    )


def policy_of(options: argparse.Namespace) -> Policy | None:
    """The policy that the options request; None without `--checkpoint`. Raises `AbreastError` for impossible options."""
    given = [name for name in _BESIDE_FOLDER if getattr(options, name) is not None]
    if options.checkpoint is None:
        if given:
            raise LaunchError(f"{_option(given[0])} is given, and --checkpoint is not", "add --checkpoint DIR")
        return None
    if options.ray:
        raise LaunchError(
            "--checkpoint does not work with --ray", "start the script on each host by a launcher, or with --hosts"
        )
    check_numbers(options)
    values = {"every": options.checkpoint_every, "keep": options.checkpoint_keep, "reset": options.checkpoint_reset}
    policy = Policy(options.checkpoint, **{name: value for name, value in values.items() if value is not None})
    if options.max_restarts is not None:
        _check_restarts(options)
    return policy


def check_numbers(options: argparse.Namespace) -> None:
    """Raise `CheckpointError`, by the option's name, for an interval or a number of checkpoints that is not allowed."""
    if options.checkpoint_every is not None:
        every_of(options.checkpoint_every, "--checkpoint-every ")
    if options.checkpoint_keep is not None:
        keep_of(options.checkpoint_keep, "--checkpoint-keep ")


def under_policy(policy: Policy | None, run: Callable[[], int]) -> int:
    """Call `run`, which runs a script, with checkpoints; returns the exit code. `SystemExit` passes through."""
    if policy is None:
        return run()
    with ExitStack() as stack:
        stack.enter_context(stop.watching(then_ends=True))
        stack.enter_context(as_default(policy))
        try:
            return stop.exit_code_after(run())
        except stop.Interrupted as end:
            if not end.is_saved:
                tell(f"{stop.requested()} asked for an end outside of a fit: what was saved before counts")
            raise
        except SystemExit as end:
            if end.code in (None, 0) and stop.exit_code_after(0) != 0:
                raise stop.Interrupted from None
            raise


def _check_restarts(options: argparse.Namespace) -> None:
    if options.max_restarts < 0:
        raise LaunchError(f"--max-restarts {options.max_restarts} is not allowed", "give 0 or more")
    world = read_world()
    if world.size > 1 or options.hosts:
        raise LaunchError(
            f"--max-restarts starts one process again, and {world.source} started {world.size} that only work together",
            f"leave out --max-restarts; {_restarts_of(world.source)}",
        )


def _restarts_of(launcher: str) -> str:
    ways = {
        "slurm": "`sbatch --requeue` starts the whole job again",
        "torchrun": "`torchrun --max-restarts N` starts all processes again",
        "--hosts": "start the same command again on every host",
    }
    return ways.get(launcher, "the launcher starts them again, or a loop around it does")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
