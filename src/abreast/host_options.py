"""The options for hosts that are started by hand, without a launcher: their checks, and their copy in the environment."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, MutableMapping

from abreast.errors import LaunchError
from abreast.hosts.secret import required_secret
from abreast.launchers import read_world
from abreast.launchers.by_hand import DEFAULT_PORT, HOSTS, THIS
from abreast.options import CommandParser, add_option

_PORT, _SECRET_FILE = "MASTER_PORT", "ABREAST_SECRET_FILE"


def add_host_options(parser: CommandParser, *, may_be_number: bool = False) -> None:
    """Add the options. `may_be_number`: whether `--hosts` may be the number of hosts, as with `--ray`."""
    parser.add_argument(
        "--hosts",
        metavar="LIST",
        help="without a launcher: the addresses of all hosts, as 10.0.0.1,10.0.0.2; start the same command on each"
        + ("; with --ray: their number" if may_be_number else ""),
    )
    parser.add_argument(
        "--this", metavar="N", help="this host's number in --hosts, from 0 (default: found by its addresses)"
    )
    parser.add_argument(
        "--port", metavar="P", type=int, help=f"a free port of the first of --hosts (default: {DEFAULT_PORT})"
    )
    add_option(
        parser, "--secret-file", metavar="FILE", help="the secret that the hosts share, for you alone (mode 0600)"
    )


def take_hosts(options: argparse.Namespace, environ: MutableMapping[str, str] = os.environ) -> None:
    """Make this process the one of its host in `--hosts`, if given. Raises `LaunchError` for invalid options."""
    refuse_strays(options, environ)
    if options.port is not None and not 0 < options.port < 65536:
        raise LaunchError(
            f"--port {options.port} is not a port", "give one from 1 to 65535 that is free on the first host"
        )
    given = {HOSTS: options.hosts, THIS: options.this, _PORT: options.port, _SECRET_FILE: options.secret_file}
    for name, value in given.items():
        if value is not None:
            environ[name] = os.path.abspath(value) if name == _SECRET_FILE else str(value)
    if environ.get(HOSTS):
        _refuse_devices(getattr(options, "devices", "auto"), environ[HOSTS])
        read_world(environ)
        required_secret(environ)


def refuse_strays(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> None:
    """Raise `LaunchError` for options that have no meaning without `--hosts`."""
    if options.hosts is not None or environ.get(HOSTS):
        return
    for name in ("this", "port", "secret_file"):
        if (value := getattr(options, name)) is not None:
            raise LaunchError(
                f"--{name.replace('_', '-')} {value} is given, and --hosts is not",
                "name the hosts, as `--hosts 10.0.0.1,10.0.0.2`; a launcher (torchrun, srun, mpirun) needs none of these",
            )


def _refuse_devices(devices: str, hosts: str) -> None:
    if devices != "auto":
        raise LaunchError(
            f"--devices {devices} and --hosts {hosts}: the process of a host takes all its devices",
            "leave out --devices; CUDA_VISIBLE_DEVICES chooses GPUs, and --cpu-devices simulates devices on each host",
        )
