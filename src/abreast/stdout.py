"""What a command prints: on stdout at once, whatever stdout is. Imports `errors`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from abreast.errors import AbreastError


def say(text: str) -> None:
    """Print; what stdout's encoding cannot hold, as a name of a file that is no text, is written out.

    A reader that went away, as `head` does, has read what it wants; raises `AbreastError` where the text cannot be written.
    """
    with contextlib.suppress(BrokenPipeError), _checked():
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def flush() -> None:
    """Let out what others printed; raises `AbreastError` where it cannot be written, `BrokenPipeError` where nobody reads."""
    if sys.stdout is not None:
        with _checked():
            sys.stdout.flush()


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    if sys.stdout is None:  # a shell's `>&-`
        raise AbreastError("cannot write to stdout: it is closed", "leave it open, or point it at a file")
    try:
        yield
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its end
        if isinstance(error, BrokenPipeError):
            raise
        hint = "point it at a file on a disk that has room"
        raise AbreastError(f"cannot write to stdout: {error.strerror or error}", hint) from None
