"""The secret that the processes of a job share, and the name of the job."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from abreast.errors import LaunchError
from abreast.launchers import World

_FEWEST_BYTES = 16
_MOST_BYTES = 4096
_IN_HOME = ".abreast/secret"
# Names of jobs that are the same on all hosts; for Slurm also the step, because steps of one job may run in parallel.
_JOB_NAMES = (
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "RAY_JOB_ID",
    "SKYPILOT_TASK_ID",
)


def job_secret(environ: Mapping[str, str] | None = None) -> bytes:
    """The secret of this job: 32 bytes, computed from the content of the first of three places.

    These are the file that `ABREAST_SECRET_FILE` names, the variable `ABREAST_SECRET`, and `~/.abreast/secret`, which is made if
    it is missing. Raises `LaunchError` for a file that others could read, and for a secret that is too short.
    """
    environ = os.environ if environ is None else environ
    name = environ.get("ABREAST_SECRET_FILE")
    if name:
        return _key(_read(Path(name), f"ABREAST_SECRET_FILE={name}"), f"the file {name}")
    if text := environ.get("ABREAST_SECRET"):
        return _key(text.encode(), "ABREAST_SECRET")
    file = _in_home(environ)
    if not file.exists():
        _make(file)
    return _key(_read(file, str(file)), f"the file {file}")


def required_secret(environ: Mapping[str, str] | None = None) -> bytes:
    """The secret for hosts started by hand. Raises `LaunchError` if there is none: a new one would exist on this host only."""
    environ = os.environ if environ is None else environ
    if not (environ.get("ABREAST_SECRET_FILE") or environ.get("ABREAST_SECRET") or _in_home(environ).exists()):
        raise LaunchError(
            "--hosts needs a secret that the hosts share, and none is given",
            f"`{_MAKE.format('job.secret')}`, copy it to every host (`scp -p`), and start each with `--secret-file job.secret`",
        )
    return job_secret(environ)


def job_name(world: World, environ: Mapping[str, str] | None = None) -> str:
    """The name of this job among the same user's jobs, the same in all its processes.

    torchrun's count of restarts differs between hosts after a failure on one of them. On one host it distinguishes old processes.
    """
    environ = os.environ if environ is None else environ
    names = [*_JOB_NAMES, *(["TORCHELASTIC_RESTART_COUNT"] if world.is_on_one_host else [])]
    of_launcher = [f"{name}={environ[name]}" for name in names if environ.get(name)]
    return " ".join([world.source, *of_launcher, f"port={world.master_port}"])


def _in_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~")) / _IN_HOME


def _key(text: bytes, where: str) -> bytes:
    text = text.strip()
    if len(text) < _FEWEST_BYTES:
        raise LaunchError(
            f"the secret in {where} has {len(text)} bytes, and {_FEWEST_BYTES} are needed",
            f"make one: `{_MAKE.format('FILE')}`",
        )
    return hashlib.sha256(b"abreast secret 1\0" + text).digest()


def _read(file: Path, called: str) -> bytes:
    """The content of a file that no other user can read. The check uses the open file, so that it cannot be replaced."""
    try:
        number = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LaunchError(f"{called} cannot be read: {error.strerror}", _HINT) from error
    try:
        found = os.fstat(number)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            raise LaunchError(f"{called} is not a file", _HINT)
        if found.st_uid != os.geteuid():
            raise LaunchError(f"{called} belongs to user {found.st_uid}, and this process is of {os.geteuid()}", _HINT)
        if mode & 0o077:
            raise LaunchError(f"{called} has mode {mode:04o}: other users can read it", f"`chmod 600 {file}`")
        return os.read(number, _MOST_BYTES)
    finally:
        os.close(number)


def _make(file: Path) -> None:
    """Make a secret in one atomic operation; if another process does so too, the first one stays."""
    part = file.with_name(f"{file.name}.{secrets.token_hex(6)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
            opened.write(secrets.token_hex(32))
            opened.flush()
            os.fsync(opened.fileno())
        try:
            with contextlib.suppress(FileExistsError):
                os.link(part, file)
        finally:
            part.unlink()
    except OSError as error:
        raise LaunchError(f"the secret of the job cannot be made in {file}: {error.strerror}", _HINT) from error


_MAKE = "(umask 077; python3 -c 'import secrets; print(secrets.token_hex())' > {})"
_HINT = (
    "give every process the same secret in the variable ABREAST_SECRET, or in a file of mode 0600 of its user: `"
    + _MAKE.format("FILE")
    + "`"
)
