"""Every exception that abreast raises. Its text states the problem with its values, then a remedy after `hint:`.

Each class also derives from the built-in exception that Keras or a framework raises in the same case, so a script that catches
the built-in exception still works. Imports nothing of abreast and no framework.
"""

from __future__ import annotations


class AbreastError(Exception):
    """Base class of all errors of abreast. Its text is the message, then a line `hint: ...` if there is one.

    Args:
        message: what happened, with the values.
        hint: what to do about it, or None.

    Example:
        >>> import abreast
        >>> from abreast.records import Records
        >>> try:
        ...     Records("missing.pack")
        ... except abreast.AbreastError as error:
        ...     print(type(error).__name__, error.hint is None)
        DataError False
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class BackendError(AbreastError, RuntimeError):
    """A framework is missing, or cannot do what the user requests."""


class NotInstalledError(BackendError, ModuleNotFoundError):
    """No framework for Keras is installed, or the chosen one is missing."""


class CheckpointError(AbreastError, ValueError):
    """A checkpoint is damaged, belongs to another training, or cannot be written or read; or its folder is in use."""


class DataError(AbreastError, ValueError):
    """A data source is empty, damaged or refused, or its batches do not fit together."""


class DeviceError(AbreastError, RuntimeError):
    """A device is missing or fails, or more devices are requested than exist."""


class LaunchError(AbreastError, RuntimeError):
    """The processes of one job do not agree, or cannot start."""


class ModelError(AbreastError, ValueError):
    """A model cannot be placed on the devices, or cannot be sent to another process."""


class NumericsError(AbreastError, FloatingPointError):
    """A check that the user requested found a value that is not finite."""


class WorkerError(AbreastError, RuntimeError):
    """A worker process died, hung or raised.

    Args:
        message: what happened.
        hint: what to do about it, or None.
        rank: the rank of the worker that failed first; None if it is not known.
        remote_traceback: the worker's traceback as text, if it raised.
    """

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


def a_type(value: object) -> str:
    """The type of a value with its article, for a message: `an int`, `a Dense`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
