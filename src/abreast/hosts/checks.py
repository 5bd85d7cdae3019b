"""Comparisons of all processes of a job before they train: versions, script, settings. Their hellos contain these facts."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import LaunchError
from abreast.stderr import tell

Hello = Mapping[str, Any]
_KINDS = {  # in the order of comparison: the verb for the error, and the hint about a difference
    "backend": ("uses", "set KERAS_BACKEND, or --backend, to the same on every host"),
    "versions": ("has", "install the same versions on every host, with the same command"),
    "script": ("runs", "copy the same file to every host, or start it from a folder that they share"),
    "settings": ("has", "give Keras the same settings on every host: those of keras.json, and those that scripts set"),
}
_ALLOWED = {"arguments": "other arguments of the script", "devices": "other numbers of devices"}


def facts(
    backend: str, versions: Mapping[str, str], settings: Mapping[str, Any], devices: int
) -> dict[str, dict[str, str]]:
    """The facts of a process for its hello. `versions` and `settings` belong to abreast, Keras and the framework.

    Versions of Python and NumPy are reduced to `major.minor`: a patch version does not change a script's results.
    """
    minor = {"Python": _minor(platform.python_version()), "NumPy": _minor(np.__version__)}
    return {
        "backend": {"Keras with the backend": backend},
        "versions": {**versions, **minor},
        "script": {"the script": _script()},
        "settings": {name: str(value) for name, value in settings.items()},
        "arguments": {"": " ".join(sys.argv[1:])},
        "devices": {"": str(devices)},
    }


def devices(hellos: Sequence[Hello]) -> list[int]:
    """The number of devices of each rank."""
    return [int(hello["devices"][""]) for hello in hellos]


def check(hellos: Sequence[Hello]) -> None:
    """Raise `LaunchError`, the same in every process, for the first fact in which a rank differs from rank 0."""
    for kind, (verb, hint) in _KINDS.items():
        for name in dict.fromkeys(name for hello in hellos for name in hello.get(kind, {})):
            values = [hello.get(kind, {}).get(name, "none") for hello in hellos]
            differ = [rank for rank, value in enumerate(values) if value != values[0]]
            if differ:
                who = _who(hellos[differ[0]]) + (f", as {len(differ) - 1} more," if len(differ) > 1 else "")
                raise LaunchError(f"{who} {verb} {name} {values[differ[0]]}, and {_who(hellos[0])} {values[0]}", hint)


def report(hellos: Sequence[Hello]) -> None:
    """Print the allowed differences between the processes."""
    for kind, what in _ALLOWED.items():
        other = next((hello for hello in hellos if hello.get(kind) != hellos[0].get(kind)), None)
        if other is not None:
            theirs, ours = ("".join(hello.get(kind, {}).values()) or "none" for hello in (other, hellos[0]))
            tell(f"the processes have {what}: {_who(other)} {theirs}, and {_who(hellos[0])} {ours}")


def _who(hello: Hello) -> str:
    return f"rank {hello['rank']} on host {hello['host']}"


def _script() -> str:
    """The name of the script and a checksum of its content, if it is a file."""
    name = sys.argv[0] if sys.argv else ""
    try:
        content = Path(name).read_bytes()
    except (OSError, ValueError):
        return "without a file"
    return f"{os.path.basename(name)} (checksum {hashlib.sha256(content).hexdigest()[:12]})"


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])
