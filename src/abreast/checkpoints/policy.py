"""The user's policy for checkpoints: their folder, how often they are written, and how many stay; and the policy of a script.

Imports no framework: `abreast run` reads it before the script starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from abreast.errors import CheckpointError

_UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_HINT = "give a number of steps, as 500, a time, as '30s', '10min' or '1h', or 'epoch'"


@dataclass(frozen=True)
class Every:
    """The interval of checkpoints: a number of steps, a number of seconds, or, if both are None, an epoch."""

    steps: int | None = None
    seconds: float | None = None

    @property
    def is_epoch(self) -> bool:
        return self.steps is None and self.seconds is None


@dataclass(frozen=True, init=False)
class Policy:
    """The folder, interval and number of checkpoints. The folder is absolute: a script may change its working directory."""

    folder: str
    every: Every
    keep: int
    reset: bool

    def __init__(
        self, folder: str | os.PathLike[str], every: int | str | Every = "10min", keep: int = 3, reset: bool = False
    ) -> None:
        """Raise `CheckpointError` for a value that is not allowed. `reset`: remove older checkpoints at the first fit."""
        for name, value in (
            ("folder", _folder_of(folder)),
            ("every", every_of(every)),
            ("keep", keep_of(keep)),
            ("reset", reset),
        ):
            object.__setattr__(self, name, value)


def every_of(value: int | str | Every, name: str = "every=") -> Every:
    """The interval for a user's `500`, `"500 steps"`, `"30s"`, `"10min"`, `"1h"` or `"epoch"`.

    Raises `CheckpointError` for anything else, and for numbers of 0 or less. `name` stands before the value in the error.
    """
    if isinstance(value, Every):
        return value
    if value == "epoch":
        return Every()
    number, unit = _parts(value)
    if 0 < number < float("inf"):
        if unit in _UNITS:
            return Every(seconds=number * _UNITS[unit])
        if unit == "step" and number == int(number):
            return Every(steps=int(number))
    raise CheckpointError(f"{name}{value!r} is not allowed", _HINT)


def _parts(value: int | str) -> tuple[float, str]:
    """A number and its unit, without a plural s; `step` is the default unit. 0 if there is no number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, "step"
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", value) if isinstance(value, str) else None
    if found is None:
        return 0, ""
    unit = found[2] or "step"
    return float(found[1]), unit if len(unit) == 1 else unit.removesuffix("s")


def _folder_of(folder: str | os.PathLike[str]) -> str:
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise CheckpointError(f"the folder {folder!r} for checkpoints is not allowed", "give the path of a folder")
    if "://" in text:
        raise CheckpointError(
            f"checkpoints cannot be written to {text!r}",
            "give the path of a folder, which all processes of a job share",
        )
    path = os.path.abspath(text)
    if os.path.exists(path) and not os.path.isdir(path):
        raise CheckpointError(f"{text!r} is not a folder", "give the path of a folder for checkpoints; it may be new")
    return path


def keep_of(keep: int, name: str = "keep=") -> int:
    """The number of checkpoints that stay. Raises `CheckpointError` unless it is 1 or more; `name` as in `every_of`."""
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise CheckpointError(f"{name}{keep!r} is not allowed", "give the number of checkpoints that stay, 1 or more")
    return keep


_default: Policy | None = None
_is_off = False


def default() -> Policy | None:
    """The policy that `abreast run --checkpoint` set for every fit of the script; None without it."""
    return _default


@contextmanager
def as_default(policy: Policy | None) -> Iterator[None]:
    """Inside, `policy` is the default of every fit."""
    global _default
    before, _default = _default, policy
    try:
        yield
    finally:
        _default = before


def is_off() -> bool:
    """Whether a command only tries a script: then no `fit` writes checkpoints or continues from one."""
    return _is_off


@contextmanager
def switched_off() -> Iterator[None]:
    """Inside, no `fit` writes checkpoints or continues from one."""
    global _is_off
    before, _is_off = _is_off, True
    try:
        yield
    finally:
        _is_off = before
