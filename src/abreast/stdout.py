"""Prints a command's output at once, to any kind of stdout: a terminal, a file, a pipe, or none."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

from abreast.errors import AbreastError

# Characters that can control a terminal, except line ends and tabs: C0, DEL, C1, and marks that change the text's direction.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def without_styles(text: str) -> str:
    """The text without the sequences that set colors and weights on a terminal."""
    return _STYLES.sub("", text)


def plain(text: str) -> str:
    """The text with control characters and surrogates escaped, as in `\\x1b`, because names in a file may be hostile."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print a text, with control characters and characters outside stdout's encoding escaped.

    A reader that closes the pipe early, as `head` does, is not an error. Raises `AbreastError` if the text cannot be written.
    """
    with contextlib.suppress(BrokenPipeError), _checked():
        encoding = sys.stdout.encoding or "utf-8"
        print(plain(text).encode(encoding, "backslashreplace").decode(encoding), flush=True)


def flush() -> None:
    """Flush text printed elsewhere. Raises `AbreastError` if it cannot be written, `BrokenPipeError` if the reader is gone."""
    if sys.stdout is not None:
        with _checked():
            sys.stdout.flush()


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    if sys.stdout is None:  # a shell's `>&-`
        raise AbreastError("cannot write to stdout: it is closed", "leave it open, or redirect it to a file")
    try:
        yield
    except OSError as error:
        # Otherwise Python tries to flush again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        hint = "redirect it to a file on a disk that has room"
        raise AbreastError(f"cannot write to stdout: {error.strerror or error}", hint) from None
