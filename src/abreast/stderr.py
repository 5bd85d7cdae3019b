"""Lines for the user on stderr, separate from a command's output on stdout: records of Python's logger `abreast`.

The logger has a handler that prints `abreast: ...` to stderr, unless it had another handler when this module was imported. The
user may set its level, handlers and `propagate` before or after that.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

from abreast.stdout import plain


class _StderrHandler(logging.Handler):
    """Prints to the present `sys.stderr` at once, if it is open."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is None:
            return
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, ValueError):  # stderr has no reader
            return

    def format(self, record: logging.LogRecord) -> str:
        kind = "error: " if record.levelno >= logging.ERROR else ""
        return plain(f"abreast: {kind}{record.getMessage()}")


def _set_up(logger: logging.Logger) -> logging.Logger:
    """Make a logger print lines of level INFO to stderr, unless it is configured otherwise."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.handlers:
        logger.addHandler(_StderrHandler())
        logger.propagate = False  # otherwise a root logger that prints to stderr would print each line again
    return logger


_LOGGER = _set_up(logging.getLogger("abreast"))


def tell(text: str) -> None:
    """Print a line that begins with our name, at once."""
    _log(logging.INFO, text)


@functools.cache
def tell_once(text: str) -> None:
    """`tell` a line, unless this function has printed it before."""
    tell(text)


_left_to_rank_0: list[bool] = []


def leave_to_rank_0() -> None:
    """From now on, only rank 0 prints lines that would be equal in all processes of the job."""
    _left_to_rank_0.append(True)


def speaks_for_all() -> bool:
    """Whether this process prints lines that would be equal in all processes of its job."""
    return not _left_to_rank_0


def tell_for_all(text: str) -> None:
    """`tell` a line that would be equal in all processes of a job: only rank 0 prints it."""
    if speaks_for_all():
        tell(text)


def fail(error: object) -> None:
    """Print an error, with its hint."""
    _log(logging.ERROR, str(error))


def _log(level: int, text: str) -> None:
    _LOGGER.disabled = False  # `dictConfig` disables loggers that it does not name, which is not meant for this one
    _LOGGER.log(level, "%s", text)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Drop this thread's lines."""
    thread = threading.get_ident()
    with _filtered(lambda record: record.thread != thread):
        yield


@contextlib.contextmanager
def without(is_unwanted: Callable[[str], bool]) -> Iterator[None]:
    """Drop the lines for which a function returns True."""
    with _filtered(lambda record: not is_unwanted(record.getMessage())):
        yield


@contextlib.contextmanager
def _filtered(is_wanted: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    _LOGGER.addFilter(is_wanted)
    try:
        yield
    finally:
        _LOGGER.removeFilter(is_wanted)


def each_once(earlier: Iterable[str]) -> list[str]:
    """From now on, drop lines that begin, up to a colon, like a line of `earlier`; returns a list that collects the others."""
    known = {_beginning(line) for line in earlier}
    new: list[str] = []

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _beginning(text) in known and record.levelno < logging.ERROR:
            return False
        new.append(text)
        return True

    _LOGGER.addFilter(is_new)
    return new


def _beginning(line: str) -> str:
    return line.partition(":")[0]


class StatusLine:
    """One line on a terminal that changes while a command works. Without a terminal, or if lines are silenced, prints nothing."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty() and _LOGGER.isEnabledFor(logging.INFO)
        self._width = 0

    def show(self, text: str) -> None:
        if self.is_shown:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)

    def leave(self) -> None:
        """End the line and let it stand."""
        if self._width:
            print(file=sys.stderr)
        self._width = 0

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
        self._width = 0
