"""A script with its arguments and options, in the form that the driver sends to Ray's workers."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import LaunchError
from abreast.run import RunOptions

_TRAVELS = ("ABREAST_", "KERAS_BACKEND")
_STAYS = ("ABREAST_RANK", "ABREAST_WORLD_SIZE", "ABREAST_HOSTS", "ABREAST_HOST_RANK", "ABREAST_SECRET")


@dataclasses.dataclass(frozen=True)
class Script:
    """The script that each worker starts: `abreast run` with these options, in `folder` if a host has it.

    `environ`: the driver's variables that every script gets.
    """

    target: str
    arguments: tuple[str, ...] = ()
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    module: bool = False
    quiet: bool = False
    folder: str = dataclasses.field(default_factory=os.getcwd)
    environ: Mapping[str, str] = dataclasses.field(default_factory=lambda: _travelling(os.environ))

    def words(self) -> list[str]:
        """The words after `abreast` that run it."""
        flags = [*(["--quiet"] if self.quiet else []), *_flags(self.options), *(["-m"] if self.module else [])]
        return ["run", *flags, self.target, *self.arguments]

    def folder_here(self) -> str:
        """The folder in which it runs: the driver's, or one shipped by Ray. Raises `LaunchError` if none has the script."""
        folders = [self.folder, os.getcwd(), *(os.path.abspath(entry) for entry in sys.path)]
        if self.module or os.path.isabs(self.target):
            found = next(filter(os.path.isdir, folders), None)
            there = self.module or os.path.exists(self.target)
        else:
            found = next((folder for folder in folders if os.path.exists(os.path.join(folder, self.target))), None)
            there = found is not None
        if found is None or not there:
            raise LaunchError(
                f"host {platform.node()} has no script {os.path.join(self.folder, self.target)!r}",
                "give a path that every host has, or let Ray ship the folder: "
                "`ray job submit --working-dir . -- abreast run --ray ...`",
            )
        return found


def _flags(options: RunOptions) -> list[str]:
    """The options of `abreast run` that differ from their defaults."""
    flags: list[str] = []
    for field in dataclasses.fields(options):
        value, name = getattr(options, field.name), field.name.replace("_", "-")
        if value == field.default:
            continue
        if isinstance(value, bool):
            flags.append(f"--{name}" if value else f"--no-{name}")
        else:
            flags += [f"--{name}", _text(value)]
    return flags


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "".join(f"{item}," for item in value)  # `0,` is device 0 alone
    return str(value)


def _travelling(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_TRAVELS) and not name.startswith(_STAYS)}
