"""What a command prints: on stdout at once, whatever stdout is. Imports `errors`."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

from abreast.errors import AbreastError

# All that a terminal may obey, but line ends and tabs: C0, DEL and C1, and marks that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with control characters and surrogates written out, as `\\x1b`: names in a file may come from a stranger."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print; control characters, and what stdout's encoding cannot hold, are written out.

    A reader that went away, as `head` does, has read what it wants; raises `AbreastError` where the text cannot be written.
    """
    with contextlib.suppress(BrokenPipeError), _checked():
        encoding = sys.stdout.encoding or "utf-8"
        print(plain(text).encode(encoding, "backslashreplace").decode(encoding), flush=True)


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
