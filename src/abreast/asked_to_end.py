"""The signal that has asked this process to end, and the exit code of such an end. Here, so that all parts may read it."""

from __future__ import annotations

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again

_signals: list[str] = []


def note(signal: str) -> None:
    """Note that this process ends because of a signal, such as `SIGTERM`."""
    _signals.append(signal)


def by() -> str | None:
    """The first signal that was noted; None without one."""
    return _signals[0] if _signals else None
