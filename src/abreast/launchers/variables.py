"""Numbers, ranks, addresses and ports from environment variables. Every error names the variable with its value."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Mapping

from abreast.errors import LaunchError
from abreast.launchers.world import LauncherName, World

HINT = "start every process with one launcher, or unset these variables to run alone"
# Above the ports that Linux gives to connections (32768 to 60999). JAX uses the same range under Slurm and Open MPI.
_FIRST_PORT, _NUM_PORTS = 61440, 4096


def number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.strip().isdecimal()):
        raise LaunchError(f"{name}={text!r} is not a number", HINT)
    return int(text)


def rank_and_size(
    environ: Mapping[str, str], rank_name: str, size_name: str, optional_size: bool = False
) -> tuple[int, int] | None:
    rank, size = number(environ, rank_name), number(environ, size_name)
    if rank is None and size is None:
        return None
    if size is None and optional_size and rank is not None:
        return rank, rank + 1
    if rank is None or size is None:
        here, missing = (rank_name, size_name) if size is None else (size_name, rank_name)
        raise LaunchError(f"{here}={environ[here]!r} is set, but {missing} is not", HINT)
    if not rank < size:
        raise LaunchError(f"{rank_name}={rank} is not below {size_name}={size}", HINT)
    return rank, size


def world_of(
    environ: Mapping[str, str],
    source: LauncherName,
    names: tuple[str, str],
    local_names: tuple[str, str],
    host: str | None = None,
) -> World | None:
    """The world of a launcher that sets one variable per number, with `MASTER_ADDR` and `MASTER_PORT` if they are set."""
    found = rank_and_size(environ, *names)
    if found is None:
        return None
    _, size = found
    local_rank, local_size = rank_and_size(environ, *local_names, optional_size=True) or (0, 1)
    if local_size > size:
        raise LaunchError(f"{local_names[1]}={local_size} is more than {names[1]}={size}", HINT)
    return World(*found, local_rank, local_size, host or platform.node(), source, *master(environ))


def master(environ: Mapping[str, str]) -> tuple[str | None, int | None]:
    return environ.get("MASTER_ADDR"), port(environ, "MASTER_PORT")


def port(environ: Mapping[str, str], name: str) -> int | None:
    found = number(environ, name)
    if found is not None and found > 65535:
        raise LaunchError(f"{name}={found} is not a port", "ports end at 65535")
    return found


def address_and_port(environ: Mapping[str, str], name: str) -> tuple[str | None, int | None]:
    """The parts of `HOST:PORT`, without the brackets of an address such as `[::1]`."""
    text = environ.get(name)
    if text is None:
        return None, None
    host, _, digits = text.strip().rpartition(":")
    if not host or not digits.isdecimal() or int(digits) > 65535:
        raise LaunchError(f"{name}={text!r} is not HOST:PORT", "as 10.0.0.1:1234")
    return host.strip("[]"), int(digits)


def port_of_job(job: int | str) -> int:
    """A port that is the same in every process of a job, and most likely different in another job."""
    return _FIRST_PORT + (job if isinstance(job, int) else zlib.crc32(job.encode())) % _NUM_PORTS
