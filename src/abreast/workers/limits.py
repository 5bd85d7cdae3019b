"""The time after which a silent process of ours counts as hung."""

from __future__ import annotations

import os

from abreast.errors import BackendError

_HANG_SECONDS = 60.0


def hang_seconds() -> float:
    """Seconds without progress after which a process counts as hung: `ABREAST_HANG_SECONDS`, or 60.

    Raises `BackendError` for a value that is not a positive number.
    """
    text = os.environ.get("ABREAST_HANG_SECONDS", str(_HANG_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BackendError(f"ABREAST_HANG_SECONDS={text!r} is not allowed", "give a number of seconds above 0")
    return seconds
