"""Every exception that abreast raises: what happened, with the values, then a `hint:` that says what to do.

Each is also of the built-in kind that Keras or a framework raises in such a place, so that a script that catches that goes on.

Imports nothing of abreast and no framework.
"""

from __future__ import annotations


class AbreastError(Exception):
    """What happened; `hint` says what to do about it and is shown on a line of its own."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class BackendError(AbreastError, RuntimeError):
    """A framework is missing, or is asked for something that it cannot do."""


class DataError(AbreastError, ValueError):
    """A data source is empty, damaged or refused, or its batches do not fit together."""


class DeviceError(AbreastError, RuntimeError):
    """A device that is not there or fails, or more devices than there are."""


class LaunchError(AbreastError, RuntimeError):
    """The processes of one job do not agree, or cannot start."""


class ModelError(AbreastError, ValueError):
    """A model that cannot be placed on the devices, or cannot be sent to another process."""


class NumericsError(AbreastError, FloatingPointError):
    """A value that is not a finite number, found where the user asked to look for it."""


class WorkerError(AbreastError, RuntimeError):
    """A worker process died, hung or raised; `rank` says which, `remote_traceback` what it said."""

    def __init__(
        self, message: str, hint: str | None = None, *, rank: int | None = None, remote_traceback: str | None = None
    ) -> None:
        super().__init__(message, hint)
        self.rank = rank
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        if self.remote_traceback is None:
            return super().__str__()
        return f"{super().__str__()}\n--- traceback of rank {self.rank} ---\n{self.remote_traceback.rstrip()}"
