"""The options of `abreast run --ray`, and its output with `--dry-run`."""

from __future__ import annotations

import argparse
import json
import os
import shlex

from abreast.errors import LaunchError
from abreast.options import CommandParser, add_option
from abreast.ray.cluster import Request
from abreast.ray.script import Script
from abreast.run import RunOptions, check_file
from abreast.stdout import say
from abreast.text_table import text_table

_START_SECONDS = 300.0


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--ray", action="store_true", help="run the script on so many hosts of a Ray cluster as --hosts says"
    )
    add_option(
        parser,
        "--gpus-per-host",
        metavar="N",
        type=int,
        help="with --ray: GPUs that each host must have free; 0 means the CPU (default: as many as the hosts have)",
    )
    add_option(
        parser,
        "--start-timeout",
        metavar="SECONDS",
        type=float,
        help=f"with --ray: the longest wait for the hosts (default: {_START_SECONDS:g})",
    )


def refuse_without_ray(options: argparse.Namespace) -> None:
    """Raise `LaunchError` for options that have a meaning only with `--ray`."""
    for name in ("gpus_per_host", "start_timeout"):
        if getattr(options, name) is not None:
            raise LaunchError(f"--{name.replace('_', '-')} is for runs on Ray", "add --ray, or leave it out")


def run(options: argparse.Namespace, run_options: RunOptions) -> int:
    """Run the script on Ray, or print the request to Ray; returns the exit code."""
    for name in ("this", "port", "secret_file"):
        if getattr(options, name) is not None:
            raise LaunchError(f"--{name.replace('_', '-')} is for hosts without a launcher", "leave it out with --ray")
    request = _request(options)
    if not options.module:
        check_file(options.script)
    script = Script(options.script, tuple(options.arguments), run_options, options.module, options.quiet)
    if options.dry_run:
        say(_facts(script, request, as_json=options.json))
        return 0
    from abreast.ray.command import run_on_ray

    return run_on_ray(script, request)


def _request(options: argparse.Namespace) -> Request:
    hosts = options.hosts or ""
    if not (hosts.isascii() and hosts.isdecimal()):
        given = f"--hosts {hosts!r} is not a number" if hosts else "--ray needs a number of hosts"
        raise LaunchError(given, "as in `abreast run --ray --hosts 2 train.py`")
    seconds = _START_SECONDS if options.start_timeout is None else options.start_timeout
    return Request(int(hosts), options.gpus_per_host, seconds)


def _facts(script: Script, request: Request, *, as_json: bool) -> str:
    facts = {
        "launcher": "ray",
        "cluster": os.environ.get("RAY_ADDRESS") or "that of this machine",
        "hosts": request.hosts,
        "gpus_per_host": "all" if request.gpus_per_host is None else request.gpus_per_host,
        "placement": "STRICT_SPREAD",
        "start_timeout_seconds": request.start_timeout,
        "folder": script.folder,
        "command": shlex.join(["abreast", *script.words()]),
        "variables": " ".join(f"{name}={value}" for name, value in sorted(script.environ.items())) or None,
    }
    if as_json:
        return json.dumps(facts, indent=2)
    return text_table([(name, "-" if value is None else str(value)) for name, value in facts.items()])
