"""The origin of a measured number: versions, machine, commit, command and date."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from abreast.cpu import cpu_model, num_cores
from abreast.device_list import list_devices

_PACKAGES = ("abreast", "keras", "keras-nightly", "jax", "tensorflow", "tensorflow-cpu", "torch", "numpy")
_GIT_SECONDS = 10


def origin_of(command: Sequence[str], commit: str | None) -> dict[str, Any]:
    """Date, command, commit (left out if None), machine and versions of a measurement that runs now."""
    return {
        "date": now(),
        "command": shlex.join(command),
        **({"commit": commit} if commit is not None else {}),
        "machine": machine(),
        "versions": versions(),
    }


@cache
def machine() -> dict[str, Any]:
    """System, processor, cores, memory in bytes, and the models of the GPUs."""
    facts: dict[str, Any] = {
        "system": system(),
        "cpu": cpu_model(),
        "cores": num_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    gpus = [device.model for device in list_devices() if device.kind == "gpu"]
    return facts | ({"gpus": gpus} if gpus else {})


@cache
def versions() -> dict[str, str]:
    """Versions of Python, abreast, Keras, NumPy and the installed frameworks."""
    return {"python": platform.python_version(), **package_versions(*_PACKAGES)}


def package_versions(*names: str) -> dict[str, str]:
    """Versions by package name, without the packages that are not installed."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    """The present time in UTC, as ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def system() -> str:
    """The operating system and the processor's architecture, such as `Linux x86_64`."""
    return f"{platform.system()} {platform.machine()}"


@cache
def commit(folder: Path, *sources: str) -> str | None:
    """The commit of the repository that contains `folder`, with `+changes` if `sources` differ from it; None without one."""
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        return head + (
            "+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *sources) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def command() -> list[str]:
    """The running command, as a user would type it."""
    main = sys.modules["__main__"].__spec__  # set under `python -m`
    if main is not None:
        name = main.name.removesuffix(".__main__")
        return [*(["abreast"] if name == "abreast" else ["python", "-m", name]), *sys.argv[1:]]
    script = Path(sys.argv[0])
    return [*([script.name] if script.name == "abreast" else ["python", os.path.relpath(script)]), *sys.argv[1:]]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS
    )
    return done.stdout.strip()
