"""`abreast` as a user types it: a part runs a command on the place's devices and reads what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.gpu.place import Missing, Place

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = _ROOT / "examples" / "digits.py"


def digits(*arguments: str) -> list[str]:
    """The script of the README, and its arguments. Raises `Missing` without scikit-learn, which has its data."""
    import importlib.util

    if importlib.util.find_spec("sklearn") is None:
        raise Missing("scikit-learn: not installed")
    return [str(_SCRIPT), *arguments]


def start(
    place: Place, command: str, *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """`abreast COMMAND` with the place's backend and devices, in a folder."""
    words = [sys.executable, "-m", "abreast", command, "--backend", place.backend, *arguments]
    return subprocess.Popen(
        words,
        cwd=folder,
        env=os.environ | dict(variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], place: Place) -> tuple[int, str]:
    """The exit code and what was printed on stdout, which also goes to the part's log. Stops a process that has no time left."""
    try:
        output, errors = process.communicate(timeout=max(1.0, place.left_seconds()))
    finally:
        process.kill()
    print(output, errors, sep="\n")
    return process.returncode, output


def devices_of(place: Place) -> list[str]:
    """The options that choose all devices of the place."""
    return place.command_options() or ["--devices", str(place.devices)]
