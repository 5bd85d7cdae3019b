"""Time limits that a user may set, such as the one after which a silent process counts as hung."""

from __future__ import annotations

import os

from abreast.errors import AbreastError, BackendError

_HANG_SECONDS = 60.0


def hang_seconds() -> float:
    """Seconds without progress after which a process counts as hung: `ABREAST_HANG_SECONDS`, or 60.

    Raises `BackendError` for a value that is not a positive number.
    """
    return seconds_of("ABREAST_HANG_SECONDS", _HANG_SECONDS, BackendError)


def seconds_of(name: str, default: float, kind: type[AbreastError]) -> float:
    """The seconds in an environment variable. Raises an error of type `kind` for a value that is not a positive number."""
    text = os.environ.get(name, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise kind(f"{name}={text!r} is not allowed", "give a number of seconds above 0")
    return seconds
